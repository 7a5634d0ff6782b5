package agents

// Records of what was written, one file for each agent, so that it can be taken back.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// record is what is known of one agent.
type record struct {
	Path    string    `json:"path"`   // of the configuration file; "": nothing is written
	Target  string    `json:"target"` // where links led
	Existed bool      `json:"existed"`
	Before  []byte    `json:"before"`
	After   string    `json:"after"` // hash of the file as it was written
	Folders []string  `json:"folders"`
	Edits   []written `json:"edits"`
	// KeyID and Key are the agent's own API key. Its text is kept, because the agent needs it again
	// with another model or address; it is in the configuration file as well.
	KeyID string `json:"keyId"`
	Key   string `json:"key"`
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

const maxRecord = 4 * maxFile

func (s *Store) recordPath(id string) string { return filepath.Join(s.dir, id+".json") }

// load returns the record of an agent; an empty one if there is none. The error is a Problem.
func (s *Store) load(id string) (record, error) {
	var r record
	data, _, err := disk.Read(s.recordPath(id), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return record{}, problem.Wrap(problem.Internal, fmt.Errorf("%s: %w", s.recordPath(id), err),
			"What Headroom has written for this agent is not known",
			"Move that file away. The configuration of the agent stays as it is.")
	}
	return r, nil
}

// save writes the record of an agent, or removes an empty one. The error is a Problem.
func (s *Store) save(id string, r record) error {
	path := s.recordPath(id)
	if r.Path == "" && r.KeyID == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return problem.Wrap(problem.Internal, err, "The record could not be removed", "")
		}
		return nil
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(s.dir, 0o700)
	}
	if err == nil {
		err = disk.WriteFile(path, append(data, '\n'), 0o600)
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "What is to be undone could not be noted",
			"Check the permissions of "+s.dir+".")
	}
	return nil
}

// base returns the text of a file without what was written, and the edits that it is without: the
// bytes from before if the file is as it was written.
func (r record) base(f format, file configFile) (base []byte, exists bool, kept []string,
	err error) {
	switch {
	case r.Path == "" || !file.exists:
		return file.text, file.exists, nil, nil
	case hashOf(file.text) == r.After && file.target == r.Target:
		return r.Before, r.Existed, nil, nil
	}
	base, kept, err = revert(f, file.text, r.Edits)
	return base, true, kept, err
}
