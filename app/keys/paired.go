package keys

// The keys of paired machines. Each is made by a pairing and belongs to the TLS certificate of the
// machine that got it: it passes at the port for machines alone, and only on a connection with that
// certificate. So a key that was read from the other machine's disk is of no use without that
// machine's private key. The endpoint for clients neither accepts these keys nor needs a key
// because of them.

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headroom/engine/guard"
	"headroom/engine/problem"
)

// pairedPrefix begins the names of the keys of paired machines.
const pairedPrefix = "paired: "

// AddPaired makes the key of a machine with this certificate, as hexadecimal digits of its SHA-256,
// and returns its text. Earlier keys of the certificate are removed; the limits of the first of
// them stay. The name of the key is "paired: " and the machine's name, and a number if that is
// taken. The error is a Problem.
func (s *Store) AddPaired(machine, certificate string) (added Key, text string, err error) {
	if err := checkCertificate(certificate); err != nil || certificate == "" {
		return Key{}, "", problem.New(problem.BadRequest, "The certificate is not valid",
			fmt.Sprintf("%q is not a SHA-256", certificate), "")
	}
	text = newKey()
	added = hashed(text)
	added.Certificate, added.Created = certificate, s.now().UTC().Truncate(time.Second)
	err = s.change(func(list []Key) ([]Key, error) {
		for _, k := range list {
			if k.Certificate == certificate {
				added.Limits = k.Limits
				break
			}
		}
		list = slices.DeleteFunc(list, func(k Key) bool { return k.Certificate == certificate })
		if len(list) >= maxKeys {
			return nil, problem.New(problem.BadRequest,
				fmt.Sprintf("There are %d API keys already", maxKeys), "", "Remove one first.")
		}
		added.Name = freeName(list, machine)
		return append(list, added), nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return added, text, nil
}

// freeName returns the name of a key of a machine, which no key in the list has. What cannot be in
// the name of a key is left out.
func freeName(list []Key, machine string) string {
	const room = 8 // for the number
	machine = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, machine)
	runes := []rune(strings.TrimSpace(machine))
	most := maxNameRunes - utf8.RuneCountInString(pairedPrefix) - room
	first := strings.TrimSpace(pairedPrefix + string(runes[:min(len(runes), most)]))
	if len(runes) == 0 {
		first = pairedPrefix + "machine"
	}
	name := first
	for n := 2; nameIsFree(list, name, "") != nil; n++ {
		name = fmt.Sprintf("%s %d", first, n)
	}
	return name
}

// FindPaired returns the holder of a key on a connection with this certificate; nil if the key is
// wrong, or belongs to no certificate or to another one.
func (s *Store) FindPaired(text, certificate string) *guard.Caller {
	if certificate == "" {
		return nil
	}
	return s.find(text, certificate)
}

// Certified reports whether a machine with this certificate has a key.
func (s *Store) Certified(certificate string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return certificate != "" && slices.ContainsFunc(s.list,
		func(k Key) bool { return k.Certificate == certificate })
}

// checkCertificate returns an error unless the text is "" or a SHA-256 in lower-case digits.
func checkCertificate(text string) error {
	sum, err := hex.DecodeString(text)
	if text != "" && (err != nil || len(sum) != 32 || text != strings.ToLower(text)) {
		return fmt.Errorf("%q is not the SHA-256 of a certificate", text)
	}
	return nil
}
