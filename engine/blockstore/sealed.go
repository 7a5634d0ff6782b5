package blockstore

// Encryption at rest; see engine/seal. What is readable in an encrypted folder: how many entries
// there are, of which model, how long, how they follow each other, and when they were used. What is
// not: tokens, titles, and the engine's tensors. Names of files and rows are keyed hashes.
//
// Each entry has a key of its own, derived from the folder's key and the salt in its slot of the
// file keys.headroom. An entry belongs to every conversation that begins with its tokens, and so
// does its key. Removing an entry overwrites its slot first, in the transaction that drops its row.
// Slots are allocated and freed with rows, so that a slot has at most one row. A slot that a crash
// left behind is overwritten by the next sweep.

import (
	"crypto/aes"
	"crypto/cipher"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"headroom/engine/seal"
)

const (
	keysName = "keys.headroom"
	// sealedChunk is short, because adopting a file opens its first chunk.
	sealedChunk = 64 << 10
	// syncKeysAfter is how long filled and evicted slots may stay unsynced. Slots of removed
	// conversations are synced at once.
	syncKeysAfter = 2 * time.Second
	noSlot        = -1 // of rows in a folder that is not encrypted
)

// Errors of opening a folder that callers can test for with errors.Is. The folder stays as it is.
var (
	// ErrOtherKey means that another installation encrypted the folder.
	ErrOtherKey = seal.ErrOtherKey
	// ErrEncrypted means that the folder is encrypted, and Options has no key.
	ErrEncrypted = errors.New("blockstore: the folder is encrypted")
)

// safe encrypts the entries of a folder. A nil *safe is a folder that is not encrypted.
type safe struct {
	slots *seal.Slots
	info  os.FileInfo // of the file of slots
	id    seal.ID
	names []byte // secret of the keys of entries
	chain [2]cipher.Block
}

func newSafe(slots *seal.Slots, info os.FileInfo) *safe {
	folder := slots.Folder()
	s := &safe{slots: slots, info: info, id: folder.ID(),
		names: folder.Derive("names", nil).Bytes()}
	for i, purpose := range []string{"chain", "codes"} {
		block, err := aes.NewCipher(folder.Derive(purpose, nil).Bytes())
		if err != nil {
			panic("blockstore: " + err.Error()) // cannot happen: the key has a valid length
		}
		s.chain[i] = block
	}
	return s
}

// secret returns the secret of the keys of entries, nil for none.
func (s *safe) secret() []byte {
	if s == nil {
		return nil
	}
	return s.names
}

// codes returns what the index sorts the entries after parent by: 4 bytes for each token, such that
// two entries have as many equal codes at the beginning as they have equal tokens. In an encrypted
// folder a code depends on the key, the parent and all tokens up to its own, and looks random: each
// token is added to a chain of AES blocks (CBC-MAC), and a second key hides the chain. Otherwise
// the codes are the tokens.
func (s *safe) codes(parent Key, tokens []int32) []byte {
	if s == nil {
		return ordered(tokens)
	}
	codes := make([]byte, 0, 4*len(tokens))
	var state, out [aes.BlockSize]byte
	copy(state[:], parent[:])
	for _, token := range tokens {
		last := binary.LittleEndian.Uint32(state[:]) ^ uint32(token)
		binary.LittleEndian.PutUint32(state[:], last)
		s.chain[0].Encrypt(state[:], state[:])
		s.chain[1].Encrypt(out[:], state[:])
		codes = append(codes, out[:4]...)
	}
	return codes
}

// secrets are the columns of a row that say what an entry is about.
type secrets struct {
	slot          int64
	title, tokens []byte // sealed; in a folder that is not encrypted, tokens are empty
	codes         []byte
}

// Numbers of the texts that are sealed with a row's key.
const (
	textTitle  = 0
	textTokens = 1
)

// row returns the columns of an entry whose slot has this key.
func (s *safe) row(slot uint32, entry seal.Key, k, parent Key, h *header) secrets {
	r := secrets{slot: noSlot, title: []byte(h.title), tokens: []byte{},
		codes: s.codes(parent, h.tokens)}
	if s == nil {
		return r
	}
	texts := entry.Derive("row", nil).Texts()
	r.slot = int64(slot)
	r.title = texts.Seal(textTitle, r.title, k[:])
	r.tokens = texts.Seal(textTokens, appendTokens(nil, h.tokens), k[:])
	return r
}

// staleRow means that a row does not open with the key in its slot. Another process may have
// removed the row and used the slot again since the row was read; see Store.browse.
type staleRow struct{ key Key }

func (e staleRow) Error() string {
	return fmt.Sprintf("blockstore: row %s does not match its key", e.key)
}

// open returns a text of a row. If the row's key was destroyed, the error is seal.ErrNoSalt; if the
// row does not match its key, the error is a staleRow.
func (s *safe) open(number uint64, slot int64, sealed []byte, k Key) ([]byte, error) {
	if s == nil {
		return sealed, nil
	}
	entry, err := s.slots.Key(uint32(slot))
	if err != nil {
		return nil, err
	}
	text, err := entry.Derive("row", nil).Texts().Open(number, sealed, k[:])
	if err != nil {
		return nil, staleRow{k}
	}
	return text, nil
}

// title returns the title of a row, "" if its key was destroyed.
func (s *safe) title(r secrets, k Key) (string, error) {
	text, err := s.open(textTitle, r.slot, r.title, k)
	if errors.Is(err, seal.ErrNoSalt) {
		err = nil
	}
	return string(text), err
}

// tokens returns the tokens of a row; seal.ErrNoSalt if its key was destroyed.
func (s *safe) tokens(r secrets, k Key) ([]int32, error) {
	if s == nil {
		return fromOrdered(r.codes), nil
	}
	text, err := s.open(textTokens, r.slot, r.tokens, k)
	if err != nil {
		return nil, err
	}
	tokens := make([]int32, len(text)/4)
	for i := range tokens {
		tokens[i] = int32(binary.LittleEndian.Uint32(text[4*i:]))
	}
	return tokens, nil
}

// openSafe opens the file of slots, and creates it in a folder that has none. held is the safe that
// the store has open; its folder's key stays the same if the file was removed. The caller holds the
// index's lock.
func (s *Store) openSafe(held *safe) (*safe, error) {
	path := filepath.Join(s.dir, keysName)
	if s.o.Key == nil {
		return nil, s.checkPlain(path)
	}
	if held != nil {
		if info, err := os.Lstat(path); err == nil && os.SameFile(info, held.info) {
			return held, nil
		}
	}
	f, err := s.o.disk.OpenKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s.createSafe(path, held)
	}
	if err != nil {
		return nil, err
	}
	slots, err := seal.OpenSlots(f, *s.o.Key)
	if err == nil && held != nil && slots.Folder().ID() != held.id {
		err = errors.New("blockstore: the folder was replaced by another one")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return finishSafe(f, slots)
}

func finishSafe(f seal.SlotFile, slots *seal.Slots) (*safe, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return newSafe(slots, info), nil
}

// createSafe writes the file under a temporary name, so that it appears whole.
func (s *Store) createSafe(path string, held *safe) (*safe, error) {
	temp := s.tempPath()
	created, err := s.o.disk.Create(temp)
	if err == nil {
		err = created.Close()
	}
	if err != nil {
		return nil, err
	}
	f, err := s.o.disk.OpenKeys(temp)
	if err != nil {
		return nil, err
	}
	folder := seal.NewKey()
	if held != nil {
		folder = held.slots.Folder()
	}
	slots, err := seal.CreateSlots(f, *s.o.Key, folder)
	if err == nil {
		err = s.o.disk.Rename(temp, path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), s.o.disk.Remove(temp))
	}
	return finishSafe(f, slots)
}

// checkPlain returns ErrEncrypted if the folder is encrypted and has entries. Without entries, the
// folder's key has no use and is destroyed. Like with a key, it refuses a foreign file at path.
func (s *Store) checkPlain(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !isKeys(path) {
		return fmt.Errorf("blockstore: %s is not a file of Headroom's: choose another folder, or "+
			"move the file", path)
	}
	files, err := filesOf(s.dir, false)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return ErrEncrypted
	}
	return seal.DestroyFile(path)
}

// isKeys reports whether the file is a file of slots that a store wrote.
func isKeys(path string) bool {
	f, err := osDisk{}.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [8]byte
	n, _ := f.Read(head[:])
	return seal.IsSlots(head[:n])
}

// isWiped reports whether the file begins with the zeros that a killed program has written over a
// file of slots.
func isWiped(path string) bool {
	f, err := osDisk{}.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [128]byte // no slot comes before
	_, err = io.ReadFull(f, head[:])
	return err == nil && head == [128]byte{}
}

// Encrypted reports whether the store in dir is encrypted.
func Encrypted(dir string) bool { return isKeys(filepath.Join(dir, keysName)) }

// ExportKey returns the key of the folder, which opens nothing else of the installation.
func ExportKey(dir string, installation seal.Key) (seal.Key, error) {
	f, err := osDisk{}.OpenKeys(filepath.Join(dir, keysName))
	if err != nil {
		return seal.Key{}, err
	}
	defer f.Close()
	slots, err := seal.OpenSlots(f, installation)
	if err != nil {
		return seal.Key{}, err
	}
	return slots.Folder(), nil
}

// ImportKey hands a folder that another installation encrypted to this one. folder is the result of
// ExportKey there; the error is ErrOtherKey if it is not this folder's.
func ImportKey(dir string, folder, installation seal.Key) error {
	lock, err := lockFile(filepath.Join(dir, lockName), lockWait)
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := osDisk{}.OpenKeys(filepath.Join(dir, keysName))
	if err != nil {
		return err
	}
	defer f.Close()
	slots, err := seal.OpenSlotsWith(f, folder)
	if err != nil {
		return err
	}
	return slots.Rewrap(installation)
}

// newSlot allocates a slot for a new row and fills it.
func (s *safe) newSlot(tx *sql.Tx) (uint32, seal.Key, error) {
	if s == nil {
		return 0, seal.Key{}, nil
	}
	var slot uint32
	err := tx.QueryRow(`DELETE FROM free_slots
		WHERE slot = (SELECT min(slot) FROM free_slots) RETURNING slot`).Scan(&slot)
	if errors.Is(err, sql.ErrNoRows) {
		err = tx.QueryRow("UPDATE totals SET slots = slots + 1 RETURNING slots - 1").Scan(&slot)
	}
	if err != nil {
		return 0, seal.Key{}, err
	}
	entry, err := s.slots.Fill(slot)
	return slot, entry, err
}

// destroySlot overwrites the slot of an entry, so that its file is noise. It does not sync.
func (s *Store) destroySlot(tx *sql.Tx, k Key) error {
	if s.safe() == nil {
		return nil
	}
	var slot int64
	err := tx.QueryRow("SELECT slot FROM entries WHERE key = ?", k[:]).Scan(&slot)
	if errors.Is(err, sql.ErrNoRows) || err == nil && slot < 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := s.safe().slots.Key(uint32(slot)); errors.Is(err, seal.ErrNoSalt) {
		return nil
	}
	defer s.keysDirty.Store(true) // after the write: a sync before it does not count
	return s.safe().slots.Destroy(uint32(slot))
}

// confirmRow returns an error for which isDamage reports true, if a row does not match its key and
// no other process can be changing it.
func (s *Store) confirmRow(tx *sql.Tx, k Key) error {
	var r secrets
	err := scanRows(tx, "SELECT slot, title, tokens FROM entries WHERE key = ?",
		func(rows *sql.Rows) error { return rows.Scan(&r.slot, &r.title, &r.tokens) }, k[:])
	if err != nil || r.title == nil {
		return err
	}
	_, titleErr := s.safe().open(textTitle, r.slot, r.title, k)
	_, tokensErr := s.safe().open(textTokens, r.slot, r.tokens, k)
	if errors.As(errors.Join(titleErr, tokensErr), &staleRow{}) {
		return fmt.Errorf("%w: row %s was changed", errIndexVersion, k)
	}
	return nil
}

// removeFiles destroys the keys of entries for good and then removes their files.
func (s *Store) removeFiles(tx *sql.Tx, keys ...Key) error {
	for _, k := range keys {
		if err := s.destroySlot(tx, k); err != nil {
			return err
		}
	}
	if err := s.syncKeys(); err != nil {
		return err
	}
	for _, k := range keys {
		if err := s.removeFile(k); err != nil {
			return err
		}
	}
	return nil
}

// syncKeys makes the slots durable, if some have changed.
func (s *Store) syncKeys() error {
	s.keysMu.Lock() // so that a caller also waits for a sync that another has begun
	defer s.keysMu.Unlock()
	safe := s.safe()
	if !s.keysDirty.Swap(false) || safe == nil {
		return nil
	}
	if err := safe.slots.Sync(); err != nil {
		s.keysDirty.Store(true)
		return err
	}
	return nil
}

// sweepSlots makes slots and rows agree: entries without a key are removed, and slots without a row
// are overwritten and free.
func (s *Store) sweepSlots(tx *sql.Tx) error {
	if s.safe() == nil {
		return nil
	}
	full, err := s.safe().slots.Full()
	if err != nil {
		return err
	}
	count, err := s.safe().slots.Count()
	if err != nil {
		return err
	}
	next := int64(count)
	used := map[uint32]bool{}
	var dead []Key
	err = scanRows(tx, "SELECT key, slot FROM entries", func(rows *sql.Rows) error {
		var k Key
		var slot int64
		err := rows.Scan(keyColumn{&k}, &slot)
		if used[uint32(slot)] = true; !full[uint32(slot)] {
			dead = append(dead, k)
		}
		next = max(next, slot+1)
		return err
	})
	if err != nil {
		return err
	}
	for _, k := range dead {
		if err := s.removeFile(k); err != nil {
			return err
		}
		if _, err := s.dropRow(tx, k); err != nil {
			return err
		}
		s.count("damaged", 1)
	}
	if len(dead) > 0 {
		s.warnOnce("keys", fmt.Errorf("%s has no key for %d of %d entries, which cannot be read "+
			"and were removed: the file was replaced or cut, or a crash interrupted their removal",
			filepath.Join(s.dir, keysName), len(dead), len(used)))
	}
	for slot := range full {
		if !used[slot] {
			err := s.safe().slots.Destroy(slot)
			if s.keysDirty.Store(true); err != nil {
				return err
			}
		}
	}
	return freeSlots(tx, next)
}

// freeSlots lists the slots below next that no row has as free.
func freeSlots(tx *sql.Tx, next int64) error {
	var slots, free, used int64
	err := tx.QueryRow(`SELECT slots, (SELECT count(*) FROM free_slots),
		(SELECT count(*) FROM entries) FROM totals`).Scan(&slots, &free, &used)
	if err != nil || slots >= next && slots == free+used {
		return err
	}
	_, err = tx.Exec(`DELETE FROM free_slots;
		UPDATE totals SET slots = max(slots, ?);
		INSERT INTO free_slots WITH RECURSIVE n (slot) AS (
			SELECT 0 WHERE (SELECT slots FROM totals) > 0
			UNION ALL SELECT slot + 1 FROM n WHERE slot + 1 < (SELECT slots FROM totals))
		SELECT slot FROM n WHERE slot NOT IN (SELECT slot FROM entries)`, next)
	return err
}
