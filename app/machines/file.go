package machines

// The file of machines. It is small, replaced atomically, and only the user can read it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
)

const (
	fileName = "machines.json"
	version  = 1
	maxBytes = 8 << 20
	lockWait = 5 * time.Second // for another program that is writing
)

// document is the content of the file.
type document struct {
	Version  int       `json:"version"`
	Machines []Machine `json:"machines"`
}

// refresh reads the file again if it has been replaced. mu is locked.
func (s *Store) refresh() {
	info, err := os.Stat(s.path())
	if errors.Is(err, fs.ErrNotExist) {
		s.adopt(document{}, nil, nil)
		return
	}
	if err == nil && same(info, s.info) {
		return
	}
	data, info, err := disk.Read(s.path(), maxBytes)
	var d document
	if err == nil {
		d, err = parse(data)
	}
	if err != nil {
		d, err = document{}, problem.Wrap(problem.Internal, err,
			"The file of other machines cannot be read, so none is used",
			"Repair or remove "+s.path()+".")
	}
	s.adopt(d, info, err)
}

func same(a, b os.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() &&
		a.ModTime().Equal(b.ModTime())
}

// adopt makes the machines of a document those of the store. mu is locked.
func (s *Store) adopt(d document, info os.FileInfo, err error) {
	s.list, s.info, s.unread, s.readOnly = d.Machines, info, err, d.Version > version
	clear(s.secrets) // another program may have changed one with the list
}

// parse reads the text of the file. A file in which anything makes no sense is refused whole.
func parse(data []byte) (d document, err error) {
	if err = json.Unmarshal(data, &d); err != nil {
		return d, err
	}
	switch {
	case d.Version < 1:
		return d, fmt.Errorf("its version is %d, expected 1 or more", d.Version)
	case d.Version == version: // a wrong name of a field, such as the certificate's
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&document{}); err != nil {
			return d, err
		}
	}
	if len(d.Machines) > maxMachines {
		return d, fmt.Errorf("it has %d machines, the limit is %d", len(d.Machines), maxMachines)
	}
	for i, m := range d.Machines {
		if m.Name == "" {
			return d, fmt.Errorf("the machine %q has no name", m.ID)
		}
		if d.Machines[i], err = normal(m); err != nil {
			return d, fmt.Errorf("the machine %q: %w", m.Name, err)
		}
		if slices.ContainsFunc(d.Machines[:i], func(other Machine) bool {
			return other.ID == m.ID || strings.EqualFold(other.Name, m.Name)
		}) {
			return d, fmt.Errorf("there are two machines %q", m.Name)
		}
	}
	return d, nil
}

// change calls a function with a copy of the machines in the file. It gets another one that writes
// a list; if that fails, the file is as it was. The errors are Problems. The function runs with mu
// and the folder locked.
func (s *Store) change(f func(list []Machine, write func([]Machine) error) error) error {
	failed := func(err error) error {
		return problem.Wrap(problem.Internal, err, "The other machines could not be saved",
			"Check that the folder "+s.dir+" can be written to.")
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return failed(err)
	}
	unlock, err := disk.LockFolder(s.dir, lockWait)
	if err != nil {
		return failed(err)
	}
	defer unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refresh()
	if s.unread != nil {
		return s.unread
	}
	if s.readOnly {
		return problem.New(problem.Internal, "The other machines cannot be changed",
			"a later version of Headroom has written their list", "Use that version.")
	}
	return f(slices.Clone(s.list), func(list []Machine) error {
		if err := s.write(list); err != nil {
			return failed(err)
		}
		return nil
	})
}

// write replaces the file. mu and the folder are locked.
func (s *Store) write(list []Machine) error {
	d := document{Version: version, Machines: list}
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = disk.WriteFile(s.path(), append(text, '\n'), 0o600)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(s.path())
	if err != nil {
		return err
	}
	s.adopt(d, info, nil)
	return nil
}
