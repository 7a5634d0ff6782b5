package pairing

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"math/big"
	"strings"
	"time"

	"headroom/engine/problem"
)

const (
	codeDigits = 8
	// codeTime is how long a code may be typed.
	codeTime = 2 * time.Minute
	// maxTries is how many exchanges may begin with a code. One that was begun counts, also if it
	// is never ended: an attacker who breaks off must gain nothing.
	maxTries = 3
)

// newCode returns a random code, without the space in its middle.
func newCode() string {
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(codeDigits), nil)
	n, err := rand.Int(rand.Reader, most)
	if err != nil {
		panic("pairing: " + err.Error()) // never fails; see crypto/rand
	}
	return fmt.Sprintf("%0*d", codeDigits, n)
}

// Grouped returns a code as people read it: "1234 5678".
func Grouped(code string) string {
	if len(code) != codeDigits {
		return code
	}
	return code[:codeDigits/2] + " " + code[codeDigits/2:]
}

// ParseCode returns the code in what a person has typed: eight digits, perhaps with spaces or
// hyphens. The error is a Problem.
func ParseCode(typed string) (string, error) {
	code := strings.Map(func(r rune) rune {
		if r == ' ' || r == '-' || r == '\u00a0' {
			return -1
		}
		return r
	}, strings.TrimSpace(typed))
	if len(code) != codeDigits || strings.Trim(code, "0123456789") != "" {
		return "", problem.New(problem.BadRequest, "The code is not valid",
			fmt.Sprintf("expected %d digits", codeDigits),
			"Type the code that the other machine shows, such as 1234 5678.")
	}
	return code, nil
}

// Phase says what has become of a code.
type Phase string

// The phases of a code.
const (
	NoCode  Phase = ""        // none was shown
	Open    Phase = "open"    // it can be typed
	Paired  Phase = "paired"  // a machine was paired with it
	Expired Phase = "expired" // its time has passed
	Void    Phase = "void"    // it was tried too often, or withdrawn
)

// Offer is the code that a machine shows, or showed last.
type Offer struct {
	Phase   Phase
	Code    string    // "": not open
	Expires time.Time // when the code expires
	Tries   int       // exchanges that may still begin
	Machine string    // the name of the machine that was paired
}

// offer is a code and the exchanges with it. Server.mu guards it.
type offer struct {
	code      string
	expires   time.Time
	tries     int // exchanges that may still begin
	phase     Phase
	machine   string               // the name of the machine that was paired
	both      bool                 // that machine may offer its own engines
	peer      string               // its certificate
	exchanges map[string]*exchange // begun and not ended, by their ID
}

// exchange is one try with a code.
type exchange struct {
	party *party
	peer  string // the certificate of the other side
	share []byte // of the other side
}

// at updates and returns the phase of an offer.
func (o *offer) at(now time.Time) Phase {
	switch {
	case o == nil:
		return NoCode
	case o.phase == Open && !now.Before(o.expires):
		o.end(Expired)
	case o.phase == Open && o.tries <= 0 && len(o.exchanges) == 0:
		o.end(Void)
	}
	return o.phase
}

// end ends an offer: no exchange begins or ends with it any more.
func (o *offer) end(phase Phase) {
	o.phase, o.code, o.exchanges = phase, "", nil
}

// equal compares two IDs in constant time.
func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
