package chats

// Earlier versions of Headroom wrote conversations as plain text, to ID.json. They are encrypted
// when they are first listed or read. The text is copied as it is, read back, and only then
// overwritten and removed. Damaged files and files of a later Headroom stay as they are.
//
// If both files are there, a crash interrupted the migration, or an earlier Headroom has written
// since. The one with the higher revision counts.

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"headroom/app/disk"
	"headroom/engine/seal"
)

// migrated returns the path of the file that has the conversation, after trying to encrypt it and
// to finish an interrupted deletion. What fails is tried again the next time. s.mu is locked.
func (s *Store) migrated(k keys, id string) string {
	if !s.plainExists(id) && !s.isDeleted(id) {
		return s.path(id)
	}
	if !s.locked {
		unlock, err := s.lock()
		if err != nil {
			return s.plainPath(id)
		}
		defer unlock()
	}
	// Another program may have done it meanwhile.
	if s.isDeleted(id) {
		_ = s.destroy(id)
	}
	if !s.plainExists(id) {
		return s.path(id)
	}
	return s.choose(k, id)
}

func (s *Store) plainExists(id string) bool {
	_, err := os.Lstat(s.plainPath(id))
	return err == nil
}

// isDeleted reports whether a crash interrupted the deletion of a conversation.
func (s *Store) isDeleted(id string) bool {
	salt, _, err := readFile(s.saltPath(id), seal.KeyBytes+1)
	return err == nil && len(salt) == seal.KeyBytes && isZero(salt)
}

// choose returns the path of the file that counts, where there is a plain one. The caller holds
// the lock.
func (s *Store) choose(k keys, id string) string {
	plain, _, plainErr := k.read(s.plainPath(id), id)
	sealed, _, sealedErr := k.read(s.path(id), id)
	there := sealedErr == nil && sealed.Summary.Damage == ""
	switch {
	case plainErr != nil || plain.Summary.Damage != "":
		if sealedErr == nil {
			return s.path(id)
		}
		return s.plainPath(id)
	case there && sealed.Summary.Revision >= plain.Summary.Revision:
		_ = s.destroyPlain(id)
		return s.path(id)
	case !there && !errors.Is(sealedErr, fs.ErrNotExist):
		return s.plainPath(id) // the damaged file is not overwritten
	}
	if s.encrypt(k, id) != nil {
		return s.plainPath(id)
	}
	return s.path(id)
}

// encrypt writes the encrypted file of a plain one, reads it back, and removes the plain one.
func (s *Store) encrypt(k keys, id string) error {
	text, _, err := readFile(s.plainPath(id), maxBytes+1)
	if err != nil {
		return err
	}
	if err := s.replace(k, id, text); err != nil {
		return err
	}
	sealed, info, err := readFile(s.path(id), maxFileBytes+1)
	if err != nil {
		return err
	}
	if got, _, damage := k.open(sealed, id, info.Size()); !bytes.Equal(got, text) {
		return errors.New("the encrypted conversation cannot be read back: " + damage)
	}
	return s.destroyPlain(id)
}

// destroyPlain overwrites and removes a plain file.
func (s *Store) destroyPlain(id string) error {
	if !s.plainExists(id) {
		return nil
	}
	err := seal.DestroyFile(s.plainPath(id))
	disk.SyncDir(s.dir)
	return err
}
