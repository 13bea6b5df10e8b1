package denied

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]struct {
		subject     string
		publish, ok bool
	}{
		`Permissions Violation for Publish to "a.b"`:           {"a.b", true, true},
		`permissions violation for subscription to "_INBOX.x"`: {"_INBOX.x", false, true},
		`permissions violation of another kind`:                {"", false, false},
	} {
		subject, publish, ok := Of(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text))
		if subject != want.subject || publish != want.publish || ok != want.ok {
			t.Errorf("%s: %q %v %v", text, subject, publish, ok)
		}
	}
	for _, err := range []error{nil, errors.New(`permissions violation for publish to "a"`)} {
		if _, _, ok := Of(err); ok {
			t.Errorf("%v is taken for a denial", err)
		}
	}
}
