package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"headroom/app/disk"
)

const (
	fileName     = "settings.json"
	damagedLabel = "damaged" // in the names of copies
	maxBytes     = 1 << 20
	checkEvery   = time.Second     // how often Get looks whether another program has written
	lockWait     = 5 * time.Second // for another program that is writing
	// lostKeyWait is short, because requests wait for it.
	lostKeyWait = 100 * time.Millisecond
)

// File is the settings file. Its methods are safe for concurrent use, also by other processes.
type File struct {
	path       string
	checkModel checkModelFunc

	mu       sync.Mutex
	now      Settings
	readOnly bool        // a later Headroom wrote it; writing would lose its settings
	unread   error       // why the file could not be read; it is not overwritten
	damaged  bool        // it is no JSON object, or was none when it was last looked at
	assumed  bool        // the API key is a random one, which no file has
	partly   bool        // it has values that make no sense, which writing would lose
	seen     os.FileInfo // of the damaged file, when Get last looked at it
	warned   os.FileInfo // of the damaged file that the log has named
	unsaved  bool        // now has changes that could not be written
	info     os.FileInfo // of the file that now was read from or written to; nil: there was none
	noticed  []notice    // what the log says of now
	access   access      // see CheckAccess
	checked  time.Time   // when Get last compared info with the file
}

// Open reads the settings in dir, which need not exist. The File is usable even if Open returns an
// error, which then says what does not apply:
//
//   - Of a file with values that make no sense, the others apply.
//   - Of a file that is not a JSON object, only the API key applies, until the file is repaired.
//   - Of a file that cannot be read, nothing applies. It is not overwritten.
//
// If the last two may have had an API key that cannot be read, or the key makes no sense, a random
// one applies, so that the endpoint stays closed.
//
// The next change replaces the first two. Before that, their text is copied to
// settings.json.damaged-1 (2 if that exists, and so on), because only what was understood is
// written.
//
// checkModel returns an error if the settings of a model make no sense for any model. It is called
// with single values and with all of a model. nil accepts all.
func Open(dir string, checkModel func(Model) error) (*File, error) {
	f := &File{path: filepath.Join(dir, fileName), now: Default(), checkModel: checkModel}
	disk.RemoveTemporary(dir, func(name string) bool { return name == fileName })
	err := f.load()
	f.checked = time.Now()
	f.warnOfLostKey()
	f.notice()
	return f, err
}

// warnOfLostKey logs that a random key applies. A file that cannot be read is never overwritten, so
// changing the key on the Settings page is no way out of that.
func (f *File) warnOfLostKey() {
	why := "the settings file is or was damaged"
	fix := "repair the file, or set or remove the API key in Settings"
	if f.unread != nil {
		why = "the settings file cannot be read"
		fix = "quit Headroom, repair or remove the file, and start Headroom again"
	}
	if f.now.KeyLost() {
		slog.Warn("a random API key closes the endpoint, because "+why, "file", f.path, "fix", fix)
	}
}

// load reads the file. f.mu is locked, or f is new.
func (f *File) load() error {
	data, info, err := read(f.path)
	if _, exists := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) &&
		errors.Is(exists, fs.ErrNotExist) { // not a link to a missing file
		return nil
	}
	if err != nil {
		f.unread = fmt.Errorf("the settings file cannot be read: %w", err)
		f.assumeKey(randomKey())
		return fmt.Errorf("%w. The defaults apply, and a random API key closes the endpoint, "+
			"because the file may have one. Quit Headroom, and repair or remove %s", f.unread,
			f.path)
	}
	s, invalid, err := parse(data, f.checkModel)
	if err != nil {
		f.damaged = true
		f.assumeKey(keyOfDamaged(data))
		f.seen, _ = os.Stat(f.path)
		f.warned = f.seen // by the error
		return fmt.Errorf("the settings file %s is damaged: %w. Repair it. Until then the "+
			"defaults apply, but for the API key, and a change keeps a copy of the file and "+
			"replaces it", f.path, atLine(data, err))
	}
	f.now, f.info, f.readOnly, f.unread = s, info, s.Version > version, nil
	if invalidKey(invalid) {
		f.assumeKey(randomKey())
	}
	return f.senseless(invalid)
}

// assumeKey makes key apply, which keyOfDamaged or randomKey has returned.
func (f *File) assumeKey(key string) {
	f.now.APIKey = key
	f.assumed = f.now.KeyLost()
}

// senseless returns an error that names the values that make no sense, nil if all do.
func (f *File) senseless(invalid []error) error {
	if f.partly = len(invalid) > 0; !f.partly {
		return nil
	}
	key := ""
	if f.now.KeyLost() && invalidKey(invalid) {
		key = ", but a random API key closes the endpoint"
	}
	return fmt.Errorf("values in %s make no sense; their defaults apply%s. A change keeps a copy "+
		"of the file: %w", f.path, key, errors.Join(invalid...))
}

// Get returns a copy of the settings, with what other programs have written until a second ago.
func (f *File) Get() Settings {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.checked) >= checkEvery {
		f.refresh(false)
	}
	return f.now.clone()
}

// refresh reads the file again if another program has replaced it. Of a file with values that make
// no sense, the others apply. A file that is not a JSON object changes nothing but the key if there
// was none; see lookAtDamaged. An API key that the file has lost stays, and is written back. f.mu
// is locked; locked reports whether other programs are kept from writing, too.
func (f *File) refresh(locked bool) {
	f.checked = time.Now()
	info, err := os.Stat(f.path)
	if f.unsaved || f.unread != nil {
		return
	}
	if errors.Is(err, fs.ErrNotExist) && f.info != nil && f.now.APIKey != "" && !f.assumed &&
		!f.readOnly {
		f.restoreRemoved(locked)
		return
	}
	if err != nil || same(info, f.info) {
		return
	}
	data, info, err := read(f.path)
	if err != nil {
		return
	}
	s, invalid, err := parse(data, f.checkModel)
	if err != nil {
		f.lookAtDamaged(data, info, err)
		return
	}
	key := f.now.APIKey
	if f.assumed {
		key = "" // the repaired file says what the key is
	}
	lost := key != "" && (invalidKey(invalid) || !s.NoAPIKey &&
		(s.APIKey == "" || s.KeyLost() && !f.now.KeyLost()))
	if lost && !locked {
		unlock, err := f.lock(lostKeyWait)
		if err != nil {
			return // the key stays; the next Get tries again
		}
		defer unlock()
		f.refresh(true)
		return
	}
	if lost {
		s.APIKey, s.NoAPIKey = key, false
	}
	f.now, f.info, f.damaged, f.readOnly = s, info, false, s.Version > version
	f.assumed = false
	if invalidKey(invalid) && !lost {
		f.assumeKey(randomKey())
	}
	f.notice()
	if err = f.senseless(invalid); err != nil {
		slog.Warn("the settings file was changed by somebody else", "err", err)
	}
	if lost {
		f.restoreKey()
	}
}

// lookAtDamaged is called while the file is not a JSON object. What applied before goes on
// applying. But if there was no API key, and the file may have one now, that one applies, or else a
// random one. So does one of a file that is still damaged when Get looks again, because its program
// may have been writing it. f.mu is locked.
func (f *File) lookAtDamaged(data []byte, info os.FileInfo, cause error) {
	f.damaged = true
	if !same(info, f.seen) {
		f.seen = info
		return
	}
	if same(info, f.warned) {
		return
	}
	f.warned = info
	slog.Warn("the settings file is damaged; what applied before goes on applying, but for an API "+
		"key where there was none. Repair it", "file", f.path, "err", atLine(data, cause))
	if f.now.APIKey == "" {
		f.assumeKey(keyOfDamaged(data))
		f.warnOfLostKey()
	}
}

// restoreKey writes the API key back into a file that somebody has left without it. The folder is
// locked.
func (f *File) restoreKey() {
	var err error
	if !f.readOnly {
		err = f.writeAndKeep()
		f.unsaved = err != nil
	}
	slog.Warn("somebody has removed the API key from the settings file, or it cannot be read; the "+
		"key stays", "file", f.path, "fix", `to remove the key, use Settings, or put "noApiKey": `+
		"true in its place")
	if err != nil {
		slog.Warn("the API key could not be written back", "file", f.path, "err", err)
	}
}

// restoreRemoved writes a file again that has an API key and was removed while Headroom runs. f.mu
// is locked.
func (f *File) restoreRemoved(locked bool) {
	if !locked {
		unlock, err := f.lock(lostKeyWait)
		if err != nil {
			return
		}
		defer unlock()
	}
	f.restoreKey()
}

// keepUnread copies the file, if it has text that f.now does not have. f.mu is locked.
func (f *File) keepUnread() error {
	info, err := os.Stat(f.path)
	if err != nil || same(info, f.info) && !f.partly {
		return nil
	}
	data, _, err := read(f.path)
	if err != nil {
		return err
	}
	if _, invalid, err := parse(data, f.checkModel); err == nil && len(invalid) == 0 {
		return nil // a whole file, which refresh did not read because of an unsaved change
	}
	copied, err := disk.KeepCopy(f.path, damagedLabel, data)
	if err == nil {
		slog.Warn("the settings file had text that makes no sense; it was copied, and is replaced",
			"file", f.path, "copy", copied)
	}
	return err
}

// writeAndKeep writes the settings, after what keepUnread keeps.
func (f *File) writeAndKeep() error {
	if err := f.keepUnread(); err != nil {
		return err
	}
	return f.write()
}

func same(a, b os.FileInfo) bool {
	return b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Change applies change to the settings in the file, and writes them if they differ. They take
// effect even if they cannot be written, unless another program keeps the folder locked.
func (f *File) Change(change func(*Settings)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change(change)
}

// Note is like Change, for what Headroom itself remembers. A damaged file is left to be repaired.
func (f *File) Note(change func(*Settings)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refresh(false); f.damaged {
		return nil
	}
	return f.change(change)
}

func (f *File) change(change func(*Settings)) error {
	unlock, err := f.lock(lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	f.refresh(true)
	next := f.now.clone()
	change(&next)
	next.Version = f.now.Version
	next.NoAPIKey = next.APIKey == "" && (f.now.APIKey != "" || f.now.NoAPIKey)
	before, after := encode(f.now), encode(next)
	f.now = next
	f.notice()
	if string(before) == string(after) && !f.unsaved || f.readOnly {
		return nil
	}
	if f.unread != nil {
		return f.unread
	}
	f.unsaved = true
	if err = f.writeAndKeep(); err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	f.unsaved = false
	return nil
}

// lock keeps other programs from writing; see disk.LockFolder.
func (f *File) lock(wait time.Duration) (unlock func(), err error) {
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return func() {}, nil // writing has the same error
	}
	if unlock, err = disk.LockFolder(dir, wait); err != nil {
		return nil, fmt.Errorf("writing the settings: %w", err)
	}
	return unlock, nil
}

// write replaces the file by the settings, atomically. Only the user can read it. A link stays, and
// the file that it leads to is replaced.
func (f *File) write() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	text := encode(f.now)
	if len(text) > maxBytes { // Open would refuse it
		return fmt.Errorf("the settings would have %d bytes, the limit is %d", len(text), maxBytes)
	}
	path := f.path
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if err := disk.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	info, err := os.Stat(f.path)
	f.info, f.damaged, f.partly, f.assumed = info, false, false, false
	return err
}

// Path returns the path of the file, which need not exist.
func (f *File) Path() string { return f.path }

// Copies returns the paths of the copies of damaged settings, and of files that killed programs
// were writing.
func (f *File) Copies() []string { return disk.Copies(f.path, damagedLabel) }

// read returns the file's text, and its state before it was read. It does not wait for a pipe.
func read(path string) ([]byte, os.FileInfo, error) {
	return disk.Read(path, maxBytes)
}
