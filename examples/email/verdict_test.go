package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// Answers as mail servers of several makers give them, and what is made of them.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step step
		code int
		text string
		want string
	}{
		// Greylisting, and mailboxes that are busy or full: this recipient, later.
		{stepRecipient, 450, "4.2.0 <ada@example.com>: Recipient address rejected: Greylisted, see http://postgrey.schweikert.ch/help/example.com.html", "retry"},
		{stepRecipient, 451, "4.7.1 Greylisting in action, please come back in 00:05:00", "retry after 5m0s"},
		{stepRecipient, 451, "Greylisted for 5 minutes", "retry after 5m0s"},
		{stepRecipient, 450, "4.2.1 The user you are trying to contact is receiving mail at a rate that prevents additional messages from being delivered.", "retry"},
		{stepAnswer, 452, "4.2.2 The recipient's inbox is out of storage space", "retry"},
		{stepRecipient, 450, "try again in 999999 hours", "retry after 1h0m0s"},

		// A rate, a quota, an outage: ours or the provider's, for all mails.
		{stepAnswer, 421, "4.7.28 Our system has detected an unusual rate of unsolicited mail", "pause 3s"},
		{stepAnswer, 454, "Throttling failure: Daily message quota exceeded.", "pause 3s"},
		{stepRecipient, 452, "4.3.1 Insufficient system storage", "pause 3s"},
		{stepRecipient, 451, "4.3.2 Please try again later", "pause 3s"},
		{stepRecipient, 450, "4.7.1 Too many connections, try again in 30s", "pause 30s"},
		{stepGreet, 421, "try again in 5 hours", "pause 10m0s"},
		{stepAuth, 454, "4.7.0 Temporary authentication failure", "pause 3s"},

		// A setting: ours, and worth ten times the wait.
		{stepAuth, 535, "5.7.8 Error: authentication failed: UGFzc3dvcmQ6", "pause 30s"},
		{stepAuth, 534, "5.7.9 Application-specific password required", "pause 30s"},
		{stepSender, 553, "5.7.1 <shop@example.com>: Sender address rejected: not owned by user", "pause 30s"},
		{stepRecipient, 530, "5.7.57 Client not authenticated to send mail", "pause 30s"},
		{stepRecipient, 554, "5.7.1 <ada@example.org>: Relay access denied", "pause 30s"},
		{stepRecipient, 550, "relay not permitted", "pause 30s"},
		{stepRecipient, 554, "5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org", "pause 30s"},
		{stepRecipient, 550, "5.1.8 <shop@example.invalid>: Sender address rejected: Domain not found", "pause 30s"},
		{stepRecipient, 504, "5.5.2 <laptop>: Helo command rejected: need fully-qualified hostname", "permanent"}, // rare, and not told apart from the recipient's
		{stepAnswer, 550, "5.7.26 This mail has been blocked because the sender is unauthenticated.", "pause 30s"},
		{stepAnswer, 554, "Message rejected: Email address is not verified. The following identities failed the check in region EU-WEST-1: ada@example.com", "pause 30s"},
		{stepData, 503, "5.5.1 Error: need RCPT command", "pause 30s"},

		// This mail, or its recipient, for good.
		{stepRecipient, 550, "5.1.1 The email account that you tried to reach does not exist.", "permanent"},
		{stepRecipient, 550, "5.1.1 <ada@example.com>: Recipient address rejected: User unknown in relay recipient table", "permanent"},
		{stepRecipient, 550, "5.2.1 This account is blacklisted by its owner", "permanent"},
		{stepRecipient, 553, "5.1.3 The recipient address is not a valid RFC 5321 address.", "permanent"},
		{stepRecipient, 501, "5.1.3 Bad recipient address syntax", "permanent"},
		{stepRecipient, 504, "5.5.2 <ada>: Recipient address rejected: need fully-qualified address", "permanent"},
		{stepRecipient, 551, "User not local", "permanent"},
		{stepAnswer, 552, "5.3.4 Message size exceeds fixed limit", "permanent"},
		{stepAnswer, 552, "5.7.0 This message was blocked because its content presents a potential security issue.", "permanent"},
		{stepAnswer, 554, "5.6.0 Message contains invalid header", "permanent"},
		{stepData, 554, "5.5.1 Error: no valid recipients", "permanent"},
	} {
		f := &failure{step: c.step, code: c.code, text: c.text}
		if got := outcome(f.verdict(pause)); got != c.want {
			t.Errorf("%s: %d %s: %s, want %s", stepNames[c.step], c.code, c.text, got, c.want)
		}
	}
	for at := stepConnect; at <= stepAnswer; at++ {
		want := "pause 3s"
		if at >= stepRecipient {
			want = "retry"
		}
		f := &failure{step: at, err: io.ErrUnexpectedEOF}
		if got := outcome(f.verdict(pause)); got != want || !errors.Is(f, io.ErrUnexpectedEOF) || !f.lost() {
			t.Errorf("%s without an answer: %s, want %s", stepNames[at], got, want)
		}
	}
}

func TestHints(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"4.7.1 try again in 60 seconds":             time.Minute,
		"Try again in 60s":                          time.Minute,
		"retry in 5 min":                            5 * time.Minute,
		"come back in 01:02:03":                     time.Hour + 2*time.Minute + 3*time.Second,
		"greylisted for 300 seconds":                5 * time.Minute,
		"deferred, wait 2 hours":                    2 * time.Hour,
		"try again later":                           0,
		"you sent 100 messages in the last 2 hours": 0, // says nothing of coming again
		"try again in 0 seconds":                    0,
		"try again, error 1234567890123456789s":     0,
		"again at 2026-01-02T10:20:30":              0,
		"retry: queue 4 sales":                      0,
		"":                                          0,
	} {
		got, ok := hint(text)
		if got != want || ok != (want > 0) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestAnAnswerIsBoundedAndOneLine(t *testing.T) {
	t.Parallel()
	if got := shorten("5.7.1 one\n5.7.1 two\xff"); got != "5.7.1 one / 5.7.1 two?" {
		t.Errorf("%q", got)
	}
	if got := shorten(strings.Repeat("ä", 1000)); len(got) > longestText+3 || !strings.HasSuffix(got, "ä…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
