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
	return s.addPaired(machine, certificate, true)
}

// OfferPaired makes a key as AddPaired does, but earlier keys of the certificate pass until
// KeepPaired. If the other machine does not store the key, Remove takes it back.
func (s *Store) OfferPaired(machine, certificate string) (offered Key, text string, err error) {
	return s.addPaired(machine, certificate, false)
}

func (s *Store) addPaired(machine, certificate string, replace bool) (k Key, text string,
	err error) {
	if err := checkCertificate(certificate); err != nil || certificate == "" {
		return Key{}, "", problem.New(problem.BadRequest, "The certificate is not valid",
			fmt.Sprintf("%q is not a SHA-256", certificate), "")
	}
	text = newKey()
	k = hashed(text)
	k.Certificate, k.Created = certificate, s.now().UTC().Truncate(time.Second)
	err = s.change(func(list []Key) ([]Key, error) {
		earlier := func(k Key) bool { return k.Certificate == certificate }
		if i := slices.IndexFunc(list, earlier); i >= 0 {
			k.Limits = list[i].Limits
		}
		if replace {
			list = slices.DeleteFunc(list, earlier)
		}
		if len(list) >= maxKeys {
			return nil, problem.New(problem.BadRequest,
				fmt.Sprintf("There are %d API keys already", maxKeys), "", "Remove one first.")
		}
		k.Name = freeName(list, machine)
		return append(list, k), nil
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, text, nil
}

// KeepPaired removes all other keys of the certificate of the key with an ID, which OfferPaired has
// made for machine. The key then has the name that AddPaired would have given it. The error is a
// Problem.
func (s *Store) KeepPaired(id, machine string) error {
	return s.change(func(list []Key) ([]Key, error) {
		i := slices.IndexFunc(list, func(k Key) bool { return k.ID == id })
		if i < 0 || list[i].Certificate == "" {
			return nil, notFound(id, list)
		}
		kept := list[i]
		list = slices.DeleteFunc(list,
			func(k Key) bool { return k.Certificate == kept.Certificate })
		kept.Name = freeName(list, machine)
		return append(list, kept), nil
	})
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
