package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ackfloor/ackfloor/testutil"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/nats-io/nats.go/jetstream"
)

// shop is a server with the eight messages and the three consumers, of which inventory is the worker's: 6 and 7 are with it, and 8 lies ahead.
func shop(t *testing.T, bodies ...string) *testutil.S {
	t.Helper()
	if chrome == nil {
		t.Skip("no chromium in PATH")
	}
	s := testutil.Server(t)
	s.Stream(t, jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}})
	publish(t, s, bodies...)
	return s
}

func publish(t *testing.T, s *testutil.S, bodies ...string) {
	t.Helper()
	js := s.JetStream(t)
	kinds := []string{"order_placed", "order_paid", "order_placed", "order_shipped"}
	for i, b := range bodies {
		subject := "events." + kinds[i%len(kinds)]
		if b == "evil" {
			subject = "events." + strings.NewReplacer(" ", "_", ".", "_", ">", "}").Replace(evil) // no subject has a space or a closing bracket
		}
		if _, err := js.Publish(t.Context(), subject, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
}

// others puts email and analytics on the stream, each at a place of its own.
func others(t *testing.T, s *testutil.S) {
	t.Helper()
	for name, done := range map[string]int{"email": 4, "analytics": 2} {
		c := s.Consumer(t, "EVENTS", jetstream.ConsumerConfig{Durable: name})
		batch, err := c.Fetch(done)
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if name == "email" { // one is on its way
			if _, err := c.Next(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPageMovesWhileMessagesFlow(t *testing.T) {
	s := shop(t, "ok", "ok", "ok")
	p := open(t, newKid(t, s.URL()).url())
	p.wait("the page to be live", live())
	p.wait("three to be acknowledged", tapeSays("inventory: acknowledgment floor 3, last delivered 3, 0 outstanding, 0 unprocessed."))
	js[bool](p, `document.querySelector("svg.drawing").kept = true`)
	publish(t, s, "ok", "ok", "ok", "ok", "ok")
	p.wait("all eight to be acknowledged", tapeSays("inventory: acknowledgment floor 8"))
	p.wait("the head to stand at the end", `document.querySelector("svg.cursor").getAttribute("x") === "100.000%"`)
	p.wait("the picture to be the same one, moved", `document.querySelector("svg.drawing").kept`)
	p.clean()
}

func TestPageOutlivesRestarts(t *testing.T) {
	s := shop(t, "ok", "ok")
	k := newKid(t, s.URL())
	p := open(t, k.url())
	p.wait("the page to be live", live())
	first := k.pid()
	if foot := p.text("footer"); !strings.Contains(foot, "process "+first+" ") {
		t.Errorf("the page is not of process %s: %s", first, foot)
	}
	k.stop()
	p.wait("the page to say that the worker is gone", `/has ended|No answer/.test(document.getElementById("live").textContent)`)
	publish(t, s, "ok")
	time.Sleep(2500 * time.Millisecond) // it tries in vain
	k.start()
	p.wait("the page to be live again", live())
	p.wait("the page to be of the new process", fmt.Sprintf(`document.querySelector("footer").textContent.includes("process %s ")`, k.pid()))
	p.wait("the third to be acknowledged", tapeSays("acknowledgment floor 3"))

	s.Stop()
	p.wait("the page to say that the server is gone", `document.getElementById("state").textContent.includes("Not ready: not connected")`)
	p.wait("the tape to say that it is old", `document.getElementById("tape").textContent.includes("not connected to the server: as of ")`)
	if !strings.Contains(p.text("#live"), "Live") {
		t.Errorf("without the server the page is not live: %s", p.text("#live"))
	}
	s.Start()
	p.wait("the worker to work again", `document.getElementById("state").textContent.trim() === "Working"`)
	p.wait("the tape to be new", `!document.querySelector("#tape .note")`)
	p.clean("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE")
}

func TestScriptIsShownAsText(t *testing.T) {
	s := shop(t, "ok", "evil")
	p := open(t, newKid(t, s.URL()).url())
	for _, when := range []string{"by the stream of events", "with the page"} {
		p.wait("the failure", fmt.Sprintf(`[...document.querySelectorAll("#failures .error")].some(e => e.textContent === %q)`, evil))
		if js[bool](p, `Boolean(window.pwned) || document.scripts.length !== 1 || document.querySelectorAll("#failures img").length > 0`) {
			t.Errorf("%s: what an error says became part of the page", when)
		}
		if !strings.Contains(p.text("#failures"), "events.<script}window_pwned=1</script}") {
			t.Errorf("%s: the subject is not shown: %s", when, p.text("#failures"))
		}
		p.do(chromedp.Reload())
	}
	p.clean()
}

func TestEverythingIsReachedByKeyboard(t *testing.T) {
	s := shop(t, "ok", "fail once")
	p := open(t, newKid(t, s.URL()).url())
	p.wait("the page to be live", live())
	want := js[int](p, `document.querySelectorAll("a[href]:not([hidden]), button:not([hidden]), summary, [tabindex='0']").length`)
	inClosed := js[int](p, `document.querySelectorAll("details:not([open]) [tabindex='0']").length`)
	seen := map[string]bool{}
	for range want + 2 {
		p.do(chromedp.KeyEvent(kb.Tab))
		at := js[struct {
			Name    string `json:"name"`
			Visible bool   `json:"visible"`
		}](p, `(e => ({name: e.tagName + "|" + (e.getAttribute("aria-label") || e.textContent).trim().slice(0, 30) + "|" + (e.getAttribute("href") || ""),
			visible: getComputedStyle(e).outlineStyle !== "none" && parseFloat(getComputedStyle(e).outlineWidth) >= 2}))(document.activeElement)`)
		if strings.HasPrefix(at.Name, "BODY") {
			continue
		}
		seen[at.Name] = true
		if !at.Visible {
			t.Errorf("the focus on %s can't be seen", at.Name)
		}
	}
	if len(seen) != want-inClosed {
		t.Errorf("the keyboard reaches %d of %d: %v", len(seen), want-inClosed, seen)
	}
	p.do(chromedp.Focus("summary"), chromedp.KeyEvent(kb.Enter))
	p.wait("the configuration to open", `document.querySelector("details").open`)
	js[bool](p, `document.querySelector("#pause").focus() || true`)
	time.Sleep(2500 * time.Millisecond) // updates come every second
	p.wait("it to stay open, and the focus where it was", `document.querySelector("details").open && document.activeElement.id === "pause"`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.wait("the updates to be paused", `document.getElementById("live").textContent === "Updates are paused"`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.wait("the updates to go on", live()) // and all parts came anew
	p.wait("the configuration to be open still", `document.querySelector("details").open`)
	p.clean()
}

func TestWithoutScripts(t *testing.T) {
	s := shop(t, "ok", "ok")
	k := newKid(t, s.URL())
	ready := open(t, k.url())
	ready.wait("the messages to be acknowledged", tapeSays("acknowledgment floor 2"))
	p := open(t, k.url(), call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	p.do(chromedp.WaitVisible("#refresh"))
	hint, main := get(p, chromedp.Text("noscript p")), get(p, chromedp.Text("main"))
	if !strings.Contains(hint, "stands still") || !strings.Contains(main, "Acknowledgment Floor") {
		t.Errorf("hint %q, page %q", hint, main)
	}
	p.clean()
}
