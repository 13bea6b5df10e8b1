package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

func TestMain(m *testing.M) {
	if os.Getenv("ACKFLOOR_TEST_CHILD") != "" {
		child()
	}
	os.Exit(run(m))
}

// chrome is the browser that all tests share; nil where there is none.
var chrome context.Context

func run(m *testing.M) int {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil && path == "" {
			path = p
		}
	}
	if path == "" {
		fmt.Fprintln(os.Stderr, "no chromium, chromium-browser or google-chrome in PATH: the status page is not tested in a browser")
		if os.Getenv("ACKFLOOR_NEED_CHROMIUM") == "1" {
			return 1
		}
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "ackfloor-browser-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	opts := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless,
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true)}
	alloc, end := chromedp.NewExecAllocator(context.Background(), opts...)
	defer end()
	browser, closeBrowser := chromedp.NewContext(alloc)
	defer closeBrowser()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "chromium does not start:", err)
		return 1
	}
	chrome = browser
	return m.Run()
}

// tab is a page of the browser, and what it complained of.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

// step is something to do in a tab.
type step = chromedp.Action[chromedp.Void]

// call makes a step of a command of the protocol.
func call[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

func open(t *testing.T, url string, before ...step) *tab {
	t.Helper()
	if chrome == nil {
		t.Skip("no chromium in PATH")
	}
	p := &tab{t: t}
	ctx, end := chromedp.NewContext(chrome, chromedp.WithListener(p.event))
	t.Cleanup(end)
	p.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // the tab lives as long as the context of its first step
		t.Fatal(err)
	}
	p.do(call(log.Enable, cdp.Empty{}))
	p.do(append(before, chromedp.Navigate(url))...)
	return p
}

func (p *tab) event(e any) {
	text := ""
	switch e := e.(type) {
	case *log.EventEntryAdded: // the policy's complaints are among these
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			text = fmt.Sprint(e.Entry.Source, ": ", e.Entry.Text, " ", e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		text = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text = fmt.Sprint("console: ", e.Type)
		}
	}
	if text != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.complaints = append(p.complaints, text)
	}
}

// clean fails the test for what the browser complained of, but for what is in but.
func (p *tab) clean(but ...string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
next:
	for _, c := range p.complaints {
		for _, b := range but {
			if strings.Contains(c, b) {
				continue next
			}
		}
		p.t.Errorf("the browser complains: %s", c)
	}
}

func (p *tab) do(steps ...step) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

// js is what an expression is in the page.
func js[T any](p *tab, expression string) T {
	p.t.Helper()
	return get(p, chromedp.Evaluate[T](expression))
}

func get[T any](p *tab, a chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return js[string](p, fmt.Sprintf("(document.querySelector(%q)||{}).textContent||''", selector))
}

// wait waits until an expression is true.
func (p *tab) wait(what, expression string) {
	p.t.Helper()
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if js[bool](p, "Boolean("+expression+")") {
			return
		}
		if time.Now().After(limit) {
			p.t.Fatalf("waited for %s; the page says: %.1500s", what, p.text("main"))
		}
	}
}

func live() string { return `document.getElementById("live").textContent === "Live"` }

func tapeSays(words string) string {
	return fmt.Sprintf(`document.querySelector("svg.drawing") && document.querySelector("svg.drawing").getAttribute("aria-label").includes(%q)`, words)
}

// prefers sets what the user prefers: "color-scheme", "reduced-motion".
func prefers(what, value string) step {
	return call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-" + what, Value: value}}})
}

func screen(width int64) step {
	return call(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 700})
}

// shoot takes a screenshot of the whole page.
func (p *tab) shoot(name string) {
	p.t.Helper()
	png := get(p, chromedp.FullScreenshot(100))
	dir := os.Getenv("ACKFLOOR_SCREENSHOTS")
	if dir == "" {
		dir = p.t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
