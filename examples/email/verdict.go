package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/ackfloor/ackfloor"
)

// step is how far a mail had come.
type step int

const (
	stepConnect step = iota
	stepGreet
	stepTLS
	stepAuth
	stepSender
	stepRecipient // from here on what fails may be about this mail
	stepData
	stepContent
	stepAnswer // all of the mail was sent: without an answer nobody knows
)

var stepNames = [...]string{"connecting", "the greeting", "TLS", "the authentication", "the sender", "the recipient", "DATA", "sending the mail", "the end of the mail"}

// failure is a mail that was not accepted, or is not known to be.
type failure struct {
	step  step
	code  int    // of the server's answer; 0: there was none
	text  string // of the answer, bounded, without the password
	err   error  // where there was no answer
	final bool   // no server can ever take it
}

func (f *failure) Error() string {
	if f.code == 0 {
		return fmt.Sprintf("email: %s: %v", stepNames[f.step], f.err)
	}
	return fmt.Sprintf("email: %s: the mail server says %d %s", stepNames[f.step], f.code, f.text)
}

func (f *failure) Unwrap() error { return f.err }

// lost says that the session can't be used any more.
func (f *failure) lost() bool { return f.code == 421 || f.code == 0 && !f.final }

// unanswered says that the server may have accepted the mail.
func (f *failure) unanswered() bool { return f.code == 0 && f.step == stepAnswer }

const (
	patience     = 10               // so many times the pause, where somebody has to change a setting: a wrong password that is tried often locks an account
	longestPause = 10 * time.Minute // that a server can ask for, for all mails
	longestRetry = time.Hour        // for one mail
)

// verdict is what becomes of the mail:
//
//   - What is about us, or the server, and not about this mail, is a Pause: no attempt is charged, nothing is given up, however long it lasts. That is whatever fails
//     before the recipient is named, a server that is down or hangs, a certificate or a password that is wrong; and later on the answers that aboutUs knows.
//   - Any other 4xx is a retry: when the server says, else by the policy.
//   - Any other 5xx is Permanent.
//   - No answer from the recipient on is a retry that is charged: a mail that breaks the connection each time must not stop all others for good.
func (f *failure) verdict(pause time.Duration) error {
	asked, hinted := hint(f.text)
	switch {
	case f.final:
		return ackfloor.Permanent(f)
	case f.code == 0 && f.step >= stepRecipient:
		return f
	case f.code == 0 && f.setting(), f.code >= 500 && f.aboutUs():
		return ackfloor.Pause(patience*pause, f)
	case f.code == 0, f.aboutUs():
		if hinted {
			pause = min(asked, longestPause)
		}
		return ackfloor.Pause(pause, f)
	case f.code >= 500:
		return ackfloor.Permanent(f)
	case hinted:
		return ackfloor.RetryAfter(min(asked, longestRetry), f)
	}
	return f
}

// setting says that there will be no other outcome before somebody changes something.
func (f *failure) setting() bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](f.err)
	return certificate || errors.Is(f.err, errNoTLS) || errors.Is(f.err, errUnsafe) || errors.Is(f.err, errMechanisms)
}

var (
	enhancedCode = regexp.MustCompile(`^\s*[45]\.(\d{1,3})\.(\d{1,3})\b`) // RFC 3463
	wordsAboutUs = regexp.MustCompile(`(?i)\brelay|authenticat|client host|throttl|sending (rate|limit|quota)|too many (messages|connections)|` +
		`daily (message|sending)|block ?list|black ?list|your (ip|account)|not verified`)
)

// aboutUs tells an answer about this service, its address, its account, or about the mail server's own state, from one about the mail or its recipient.
func (f *failure) aboutUs() bool {
	if f.step < stepRecipient {
		return true
	}
	switch f.code {
	case 421, 454, // it closes; it can't authenticate, or it throttles
		500, 502, 503, // it does not know a command, or not here
		530, 534, 535, 538: // it wants an authentication, another one, or TLS
		return true
	case 504:
		return f.step != stepRecipient // there it is an address that the server wants longer
	}
	if e := enhancedCode.FindStringSubmatch(f.text); e != nil {
		switch subject, detail := e[1], e[2]; {
		case subject == "1":
			return detail == "7" || detail == "8" // the sender's address
		case subject == "2":
			return false // the mailbox
		case subject == "3" && detail != "4":
			return true // the mail system is full, or out
		}
	}
	return wordsAboutUs.MatchString(f.text)
}

const longestText = 300

// shorten makes one line of an answer, and not a long one.
func shorten(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\n", " / "), "?")
	if len(text) > longestText {
		text = strings.ToValidUTF8(text[:longestText], "") + "…"
	}
	return text
}
