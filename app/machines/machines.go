// Package machines stores the other machines whose engines this one may use: other Headrooms, and
// any OpenAI-compatible server. app/route sends requests to them.
//
// The list is a file beside the settings. What a machine wants as its API key is in the system's
// keychain, or, without one, in a second file that only the user can read. Several programs may use
// one folder: a change reads the file again under a lock, and a server looks at the file every few
// seconds.
//
// A file that cannot be read means no machines: every model is then served here, or not at all.
//
//	machines.go  what is known of a machine
//	file.go      the file, and changes of it
//	secrets.go   API keys
//	client.go    connections to a machine
package machines

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"headroom/engine/problem"
)

// Kind says which program answers at a machine.
type Kind string

// The kinds.
const (
	Headroom Kind = "headroom"
	OpenAI   Kind = "openai" // a server with OpenAI's API, such as vLLM, LM Studio or a cloud
)

// Machine is another machine. A Machine and its slices must not be changed once it is in a Store.
type Machine struct {
	ID   string `json:"id"`   // unique, and the same after the name has changed
	Name string `json:"name"` // unique without regard to case
	Kind Kind   `json:"kind"`
	// URL is the base address without a slash at its end. That of a Headroom has no path; requests
	// keep theirs. That of another server stands for "/v1": http://host:8000/v1.
	URL string `json:"url"`
	// Certificate is the SHA-256 of the only TLS certificate that is accepted, in 64 hexadecimal
	// digits. "": one that the system trusts, or none for an http URL.
	Certificate string `json:"certificate,omitempty"`
	Paired      bool   `json:"paired,omitempty"` // added by pairing, not by its address
	// Models are the IDs of those of its models that are used; none: all.
	Models []string `json:"models,omitempty"`
	Off    bool     `json:"off,omitempty"` // nothing is sent to it
	// HasSecret says that the machine wants an API key, which Store.Secret returns.
	HasSecret bool      `json:"hasSecret,omitempty"`
	Added     time.Time `json:"added"`
}

const (
	maxMachines  = 200
	maxNameRunes = 64
	maxURLBytes  = 500
	maxModels    = 1000
	maxIDBytes   = 100
)

// Store is the machines in a folder. Its methods are safe for concurrent use, also by other
// processes.
type Store struct {
	dir string
	now func() time.Time

	mu       sync.Mutex
	list     []Machine
	unread   error             // why the file cannot be read
	readOnly bool              // a later Headroom wrote the file
	info     os.FileInfo       // of the file that list or unread comes from; nil: there was none
	secrets  map[string]string // those that were read, by machine ID
}

// Open reads the machines in dir, which need not exist. The Store is usable even if Open returns an
// error: then it has no machines, and cannot be changed.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir, now: time.Now, secrets: map[string]string{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s, s.unread
}

// List returns the machines in the order in which they were added.
func (s *Store) List() []Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return slices.Clone(s.list)
}

// Err returns why the file of machines cannot be read, as a sentence; nil if it can.
func (s *Store) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	return s.unread
}

// Named returns the machine with a name or an ID. The error is a Problem.
func (s *Store) Named(nameOrID string) (Machine, error) {
	list := s.List()
	i, err := indexOf(list, nameOrID)
	if err != nil {
		return Machine{}, err
	}
	return list[i], nil
}

// Add adds a machine, with the API key that it wants; "": none. It chooses an ID and a name if the
// machine has none. A machine with the ID of another one replaces it. The error is a Problem.
func (s *Store) Add(m Machine, secret string) (Machine, error) {
	if m.ID == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails; see crypto/rand
		m.ID = hex.EncodeToString(b[:])
	}
	m, err := normal(m)
	if err != nil {
		return Machine{}, err
	}
	if secret, err = cleanSecret(secret); err != nil {
		return Machine{}, err
	}
	m.HasSecret = secret != ""
	m.Added = s.now().UTC().Truncate(time.Second)
	restore := s.restorer(m.ID) // before the locks: the keychain may ask the user
	err = s.change(func(list []Machine, write func([]Machine) error) error {
		i := slices.IndexFunc(list, func(other Machine) bool { return other.ID == m.ID })
		if m.Name == "" {
			m.Name = freeName(list, m)
		}
		if err := nameIsFree(list, m); err != nil {
			return err
		}
		switch {
		case i >= 0:
			list[i] = m
		case len(list) >= maxMachines:
			return problem.New(problem.BadRequest,
				fmt.Sprintf("There are %d other machines already", maxMachines), "",
				"Remove one first.")
		default:
			list = append(list, m)
		}
		return s.writeWith(list, write, m.ID, secret, restore)
	})
	if err != nil {
		return Machine{}, err
	}
	return m, nil
}

// Set replaces what is stored of the machine with m's ID, except its API key. The error is a
// Problem.
func (s *Store) Set(m Machine) error {
	m, err := normal(m)
	if err != nil {
		return err
	}
	return s.change(func(list []Machine, write func([]Machine) error) error {
		i, err := indexOf(list, m.ID)
		if err != nil {
			return err
		}
		if m.Name == "" {
			m.Name = list[i].Name
		}
		if err := nameIsFree(list, m); err != nil {
			return err
		}
		m.HasSecret, m.Added = list[i].HasSecret, list[i].Added
		list[i] = m
		return write(list)
	})
}

// SetSecret replaces the API key of the machine with this ID; "": it wants none. Other processes
// notice, since the list is written again. The error is a Problem.
func (s *Store) SetSecret(id, secret string) error {
	secret, err := cleanSecret(secret)
	if err != nil {
		return err
	}
	restore := s.restorer(id)
	return s.change(func(list []Machine, write func([]Machine) error) error {
		i, err := indexOf(list, id)
		if err != nil {
			return err
		}
		list[i].HasSecret = secret != ""
		return s.writeWith(list, write, list[i].ID, secret, restore)
	})
}

// Remove removes the machine with a name or an ID, and then its API key. If that is what fails, the
// machine is removed all the same. The error is a Problem.
func (s *Store) Remove(nameOrID string) (removed Machine, err error) {
	err = s.change(func(list []Machine, write func([]Machine) error) error {
		i, err := indexOf(list, nameOrID)
		if err != nil {
			return err
		}
		removed = list[i]
		return s.writeWithout(slices.Delete(list, i, i+1), write, removed.ID)
	})
	return removed, err
}

// writeWith writes a list and the API key of one of its machines; "": it has none. The key comes
// first: another program that sees the new list must not read the old key. restore brings the old
// one back if the list cannot be written.
func (s *Store) writeWith(list []Machine, write func([]Machine) error, id, secret string,
	restore func()) error {
	if secret == "" {
		return s.writeWithout(list, write, id)
	}
	err := s.setSecret(id, secret)
	if err == nil {
		err = write(list)
	}
	if err != nil {
		restore()
	}
	return err
}

// writeWithout writes a list in which the machine with an ID has no API key any more, and then
// removes the key, so that a list that cannot be written leaves it. mu and the folder are locked.
func (s *Store) writeWithout(list []Machine, write func([]Machine) error, id string) error {
	if _, err := s.readSecrets(); err != nil {
		return s.unreadSecrets(err)
	}
	if err := write(list); err != nil {
		return err
	}
	return s.setSecret(id, "")
}

// indexOf returns the index of the machine with a name or an ID. The error is a Problem.
func indexOf(list []Machine, nameOrID string) (int, error) {
	nameOrID = strings.TrimSpace(nameOrID)
	i := slices.IndexFunc(list, func(m Machine) bool { return strings.EqualFold(m.Name, nameOrID) })
	if i < 0 {
		i = slices.IndexFunc(list, func(m Machine) bool { return m.ID == nameOrID })
	}
	if i >= 0 {
		return i, nil
	}
	fix := "There are no other machines: add one with `headroom machines add ADDRESS`."
	if len(list) > 0 {
		names := make([]string, len(list))
		for i, m := range list {
			names[i] = m.Name
		}
		fix = "The machines are " + strings.Join(names, ", ") + "."
	}
	return 0, problem.New(problem.NotFound, fmt.Sprintf("There is no machine %q", nameOrID), "",
		fix)
}

// nameIsFree returns a Problem if another machine has m's name.
func nameIsFree(list []Machine, m Machine) error {
	if slices.ContainsFunc(list, func(other Machine) bool {
		return other.ID != m.ID && strings.EqualFold(other.Name, m.Name)
	}) {
		return problem.New(problem.Exists, fmt.Sprintf("There is a machine %q already", m.Name), "",
			"Choose another name, or remove that machine first.")
	}
	return nil
}

// freeName returns the host name in m's address, with a number if another machine has that name.
func freeName(list []Machine, m Machine) string {
	u, _ := url.Parse(m.URL) // normal has checked it
	base := strings.TrimSuffix(u.Hostname(), ".local")
	if runes := []rune(base); len(runes) > maxNameRunes-4 {
		base = string(runes[:maxNameRunes-4])
	}
	name := base
	for n := 2; ; n++ {
		m.Name = name
		if nameIsFree(list, m) == nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
}

// normal returns a machine in the form in which it is stored. The error is a Problem.
func normal(m Machine) (Machine, error) {
	bad := func(what, why, fix string) (Machine, error) {
		return Machine{}, problem.New(problem.BadRequest, what, why, fix)
	}
	if m.Kind != Headroom && m.Kind != OpenAI {
		return bad(fmt.Sprintf("%q is not a kind of machine", m.Kind), "",
			`Use "headroom" or "openai".`)
	}
	if m.ID == "" || len(m.ID) > maxIDBytes || strings.ContainsFunc(m.ID, func(r rune) bool {
		return r <= ' ' || r > '~'
	}) {
		return bad(fmt.Sprintf("%q is not the ID of a machine", m.ID), "",
			"Leave it out for a new machine.")
	}
	m.Name = strings.TrimSpace(m.Name)
	if err := checkName(m.Name); err != nil {
		return Machine{}, err
	}
	address, err := CleanURL(m.Kind, m.URL)
	if err != nil {
		return Machine{}, err
	}
	m.URL = address
	if m.Certificate, err = CleanCertificate(m.Certificate); err != nil {
		return Machine{}, err
	}
	if m.Certificate != "" && !strings.HasPrefix(m.URL, "https:") {
		return bad("A certificate is only for an https address", "the address is "+m.URL,
			"Give the https address, or no certificate.")
	}
	if len(m.Models) > maxModels {
		return bad(fmt.Sprintf("%d models are too many for one machine", len(m.Models)), "",
			fmt.Sprintf("List up to %d, or none for all.", maxModels))
	}
	m.Models = slices.Clone(m.Models)
	slices.Sort(m.Models)
	m.Models = slices.Compact(m.Models)
	return m, nil
}

// checkName returns a Problem if a machine may not have this name; "" is chosen later. A name with
// a slash or "@" could not be told from a part of a model's name.
func checkName(name string) error {
	bad := func(why string) error {
		return problem.New(problem.BadRequest, "The name of the machine is not valid", why,
			fmt.Sprintf("Use a name of 1 to %d characters, such as studio.", maxNameRunes))
	}
	switch {
	case utf8.RuneCountInString(name) > maxNameRunes:
		return bad("it is too long")
	case !utf8.ValidString(name) || strings.ContainsFunc(name,
		func(r rune) bool { return !unicode.IsPrint(r) }):
		return bad("it has a character that cannot be printed")
	case strings.ContainsAny(name, `@/\"`):
		return bad(`it has one of the characters @ / \ "`)
	}
	return nil
}

// defaultPort is that of a Headroom.
const defaultPort = "11811"

// WithPort returns an address with the port of a Headroom, if it has no scheme, port or path, and
// the kind is not that of another server.
func WithPort(kind Kind, address string) string {
	address = strings.TrimSpace(address)
	u, err := url.Parse("http://" + address)
	if kind == OpenAI || strings.Contains(address, "://") || err != nil || u.Hostname() == "" ||
		u.Host != address || u.Port() != "" || strings.HasSuffix(address, ":") {
		return address
	}
	return address + ":" + defaultPort
}

// CleanCertificate returns the SHA-256 of a certificate as it is stored; "" is none. The error is a
// Problem.
func CleanCertificate(sum string) (string, error) {
	sum = strings.ToLower(strings.ReplaceAll(sum, ":", ""))
	if b, err := hex.DecodeString(sum); err != nil || sum != "" && len(b) != sha256.Size {
		return "", problem.New(problem.BadRequest, "The certificate's SHA-256 is not valid",
			fmt.Sprintf("got %q, expected 64 hexadecimal digits", sum), "")
	}
	return sum, nil
}

// CleanURL returns the base address of a machine as it is stored. It adds http:// and, for a server
// that is no Headroom, /v1 where an address has none. The error is a Problem.
func CleanURL(kind Kind, address string) (string, error) {
	address = strings.TrimSpace(address)
	bad := func(why string) (string, error) {
		return "", problem.New(problem.BadRequest,
			fmt.Sprintf("%q is not the address of a machine", address), why,
			"Give one such as http://studio.local:11811.")
	}
	if len(address) > maxURLBytes {
		return bad("it is too long")
	}
	full := address
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	switch {
	case err != nil:
		return bad(err.Error())
	case u.Scheme != "http" && u.Scheme != "https":
		return bad("it begins with " + u.Scheme + "://")
	case u.Hostname() == "":
		return bad("it has no host name")
	case u.User != nil:
		return bad("it has a user name or a password, which belongs into the API key")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return bad("it has a part after ? or #")
	}
	path := strings.TrimRight(u.Path, "/")
	if kind == Headroom {
		if path = strings.TrimSuffix(path, "/v1"); path != "" {
			return bad("a Headroom has no path " + path)
		}
	} else if path == "" {
		path = "/v1"
	}
	u.Path, u.RawPath = path, ""
	name, _, _ := strings.Cut(u.Host, "%") // a zone is an interface, such as enP2p1s0
	u.Host = strings.ToLower(name) + u.Host[len(name):]
	return u.String(), nil
}

// path returns the path of the file of machines, which need not exist.
func (s *Store) path() string { return filepath.Join(s.dir, fileName) }
