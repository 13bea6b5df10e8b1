package systemd

import "testing"

// No status begins a second message, however an error reads.
func TestOneLine(t *testing.T) {
	for in, want := range map[string]string{"a\nREADY=1": "a READY=1", "a\r\n\x00b": "a   b", "a\u2028b": "a b", "plain": "plain"} {
		if got := oneLine(in); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	if got := oneLine(string(make([]byte, 5000))); len(got) > longStatus+3 {
		t.Errorf("%d bytes", len(got))
	}
}
