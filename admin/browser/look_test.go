package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// full is a worker with something of everything on its page.
func full(t *testing.T, fourth string) *kid {
	t.Helper()
	s := shop(t, "ok", "ok", "fail article 4711 is not in stock", fourth, "ok", "hold", "hold", "ok")
	others(t, s)
	return newKid(t, s.URL(), "WORKER_MAX_ACK_PENDING=3")
}

const settled = "inventory: acknowledgment floor 2, last delivered 7, 3 outstanding, 1 unprocessed."

// contrast finds texts that stand out too little from what is behind them: 4.5 to 1 is what WCAG 2 asks for (AA).
const contrast = `(() => {
	const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
	const rgba = (c) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); const d = canvas.getImageData(0, 0, 1, 1).data; return [d[0], d[1], d[2], d[3] / 255]; };
	const light = (c) => { const f = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
	const bad = [];
	for (const e of document.querySelectorAll("body *")) {
		if (![...e.childNodes].some((n) => n.nodeType === 3 && n.nodeValue.trim()) || !e.checkVisibility() || ["SCRIPT", "NOSCRIPT", "STYLE"].includes(e.tagName)) continue;
		const svg = e instanceof SVGElement;
		const fore = rgba(svg ? getComputedStyle(e).fill : getComputedStyle(e).color);
		const back = svg && e.classList.contains("number") ? rgba(getComputedStyle(document.querySelector(".cell")).fill) : behind(e);
		const [a, b] = [light(fore), light(back)].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) bad.push(e.tagName + "." + e.getAttribute("class") + " " + e.textContent.trim().slice(0, 30) + ": " + ratio.toFixed(2));
	}
	return bad;
})()`

// The page fits every screen, in the light and in the dark, and what it says can be read.
func TestFitsAndReads(t *testing.T) {
	k := full(t, "evil")
	for _, dark := range []string{"light", "dark"} {
		for _, width := range []int64{320, 360, 600, 820, 1280} {
			p := open(t, k.url(), prefers("color-scheme", dark), screen(width))
			p.wait("the page to be live", live())
			p.wait("the worker to hold what it holds", tapeSays(settled))
			for _, details := range []bool{false, true} {
				js[bool](p, fmt.Sprintf(`document.querySelectorAll("details").forEach(d => d.open = %v) || true`, details))
				over := js[[]string](p, `document.documentElement.scrollWidth <= document.documentElement.clientWidth ? [] :
					[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll")).map(e => e.tagName + "." + e.getAttribute("class")).slice(0, 9)
						.concat(["the page is " + document.documentElement.scrollWidth + " wide"])`)
				if len(over) > 0 {
					t.Errorf("%s, %d px: wider than the screen: %v", dark, width, over)
				}
				if bad := js[[]string](p, contrast); len(bad) > 0 {
					t.Errorf("%s, %d px: too little contrast: %s", dark, width, strings.Join(bad, "; "))
				}
				if !details {
					p.shoot(fmt.Sprintf("%s-%d", dark, width))
				}
			}
			p.clean()
			_ = chromedp.Cancel(p.ctx)
		}
	}
}

func TestMotionIsReducedWhereAsked(t *testing.T) {
	k := full(t, "evil")
	for value, want := range map[string]bool{"reduce": true, "no-preference": false} {
		p := open(t, k.url(), prefers("reduced-motion", value))
		p.wait("the page to be live", live())
		still := js[bool](p, `[...document.querySelectorAll("*")].every(e => getComputedStyle(e).transitionDuration === "0s" && getComputedStyle(e).animationName === "none")`)
		if still != want {
			t.Errorf("prefers-reduced-motion: %s: stands still: %v", value, still)
		}
	}
}

// A screen reader finds its way: landmarks, headings, tables with names, the tape in words; and only the state speaks up by itself.
func TestScreenReader(t *testing.T) {
	p := open(t, full(t, "evil").url())
	p.wait("the worker to hold what it holds", tapeSays(settled))
	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, n := range tree.Nodes {
		if n.Role == nil || n.Ignored {
			continue
		}
		name := ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		role := strings.Trim(string(n.Role.Value), `"`)
		found[role], found[role+" "+name] = true, true
		if (role == "image" || role == "table" || role == "button" || role == "link" || role == "region") && name == "" && role != "image" {
			t.Errorf("a %s has no name", role)
		}
	}
	for _, want := range []string{"banner", "main", "contentinfo", "navigation The same for machines", "heading inventory on EVENTS", "heading Stream EVENTS", "table Cursors on EVENTS",
		"table Messages held by inventory, the longest first", "heading Last failures", "columnheader Acknowledgment Floor", "rowheader email", "button Pause updates"} {
		if !found[want] {
			t.Errorf("there is no %s", want)
		}
	}
	speaks := js[[]string](p, `[...document.querySelectorAll("[aria-live], [role=status], [role=alert]")].map(e => e.id)`)
	if fmt.Sprint(speaks) != "[live state]" {
		t.Errorf("by themselves speak %v", speaks)
	}
	p.clean()
}

// The picture of the documentation is of the page as it is.
func TestPictureOfTheDocs(t *testing.T) {
	if os.Getenv("ACKFLOOR_WRITE_DOCS") != "1" {
		t.Skip("ACKFLOOR_WRITE_DOCS=1 writes docs/images/status-page.png")
	}
	p := open(t, full(t, "gone order 1203 has no lines").url(), prefers("color-scheme", "light"), screen(1080))
	p.wait("the worker to hold what it holds", tapeSays(settled))
	p.wait("the page to be live", live())
	p.wait("some seconds of history", `document.querySelector(".spark .line").getAttribute("d").split("L").length > 4`)
	height := js[float64](p, `document.querySelector("#failures").getBoundingClientRect().bottom + 4`)
	beyond := true
	shot, err := chromedp.Call(p.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: &page.Viewport{Width: 1080, Height: height, Scale: 1}, CaptureBeyondViewport: &beyond})
	if err != nil {
		t.Fatal(err)
	}
	png := shot.Data
	if len(png) >= 200<<10 {
		t.Errorf("the picture has %d bytes", len(png))
	}
	if err := os.WriteFile(filepath.Join("..", "..", "docs", "images", "status-page.png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}
