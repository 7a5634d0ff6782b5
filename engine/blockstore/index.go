package blockstore

// The index is one SQLite file with a row per entry. No part of it is cached in memory, and every
// lookup is a query. So opening takes milliseconds at any size, and processes that share the folder
// see each other's entries.
//
// A row is "writing" from the reservation of its bytes until its file is in place, then "ready".
// Triggers maintain the totals in every transaction. Recency is a counter in the index, not a time.

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	schemaVersion  = 2
	sealedVersion  = 1000 + schemaVersion // of an encrypted folder
	applicationID  = 0x48524243           // "HRBC"
	indexConns     = 4                    // concurrent queries
	statusWriting  = 0
	statusReady    = 1
	busyTimeoutMS  = 5000
	indexPageBytes = 8192 // a row or index entry, with 1,024 bytes of tokens, fits on a page
)

// sinceCount is the name of the counter that holds the creation time of the index, in seconds since
// 1970. The total "ever" counts from that time.
const sinceCount = "since"

// schema creates the tables of the index. parent is the key of the parent block, or the model's
// root key at position 0. codes, title, tokens and slot are those of type secrets. free_slots has
// the slots below the total "slots" that no entry has. today is the number of bytes written on the
// calendar day "day" (days since 1970). pin marks the end of a pinned conversation, pinned the
// entries that the mark protects.
const schema = `
CREATE TABLE models (
	id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL, format TEXT NOT NULL, name TEXT NOT NULL, UNIQUE (fingerprint, format));
CREATE TABLE entries (
	key BLOB PRIMARY KEY, parent BLOB NOT NULL, model INTEGER NOT NULL, kind INTEGER NOT NULL, status INTEGER NOT NULL,
	owner TEXT NOT NULL, position INTEGER NOT NULL, n INTEGER NOT NULL, bytes INTEGER NOT NULL, used INTEGER NOT NULL,
	pin INTEGER NOT NULL DEFAULT 0, pinned INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL, hit INTEGER NOT NULL DEFAULT 0,
	hits INTEGER NOT NULL DEFAULT 0, saved REAL NOT NULL DEFAULT 0, seconds REAL NOT NULL,
	slot INTEGER NOT NULL, title BLOB NOT NULL, tokens BLOB NOT NULL, codes BLOB NOT NULL);
CREATE INDEX entries_children ON entries (parent, kind, n, status);
CREATE INDEX entries_codes ON entries (parent, codes) WHERE kind <> 3;
CREATE UNIQUE INDEX entries_slot ON entries (slot) WHERE slot >= 0;
CREATE TABLE free_slots (slot INTEGER PRIMARY KEY);
CREATE INDEX entries_used ON entries (used, position DESC) WHERE pinned = 0;
CREATE INDEX entries_pin ON entries (pin) WHERE pin = 1;
CREATE INDEX entries_pinned ON entries (pinned) WHERE pinned = 1;
CREATE INDEX entries_model ON entries (model, bytes);
CREATE INDEX entries_writing ON entries (status) WHERE status = 0;
CREATE TABLE totals (
	bytes INTEGER NOT NULL, entries INTEGER NOT NULL, clock INTEGER NOT NULL, complete INTEGER NOT NULL,
	day INTEGER NOT NULL, today INTEGER NOT NULL, ever INTEGER NOT NULL, slots INTEGER NOT NULL);
CREATE TABLE counts (name TEXT PRIMARY KEY, n REAL NOT NULL, text TEXT NOT NULL DEFAULT '');
INSERT INTO totals VALUES (0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO counts (name, n) VALUES ('` + sinceCount + `', unixepoch());
CREATE TRIGGER entries_insert AFTER INSERT ON entries BEGIN
	UPDATE totals SET bytes = bytes + new.bytes, entries = entries + 1; END;
CREATE TRIGGER entries_delete AFTER DELETE ON entries BEGIN
	UPDATE totals SET bytes = bytes - old.bytes, entries = entries - 1;
	INSERT OR IGNORE INTO free_slots SELECT old.slot WHERE old.slot >= 0; END;
`

// index is an open index.
type index struct {
	db       *sql.DB
	info     os.FileInfo   // of the opened file; see replaced
	aside    string        // where a foreign file of the index's name is now; "": there was none
	complete bool          // when the index was opened, it listed all files
	adopted  chan struct{} // closed when complete, or when the first sweep has ended
	find     findQueries
}

// openIndex opens the index in dir, of an encrypted folder or another one. If the index is missing,
// damaged, of another version or of the other kind of folder, openIndex replaces it with an empty
// one. With force it replaces any index. The caller holds the index's lock. temp is a path for a
// file that is being written.
func openIndex(dir, temp string, sealed, force bool) (*index, error) {
	path := filepath.Join(dir, indexName)
	// SQLite would remove the log beside a file that is not a database.
	if ours, err := checkIndex(path); err != nil {
		return nil, err
	} else if ours && !force {
		x, err := tryIndex(path, sealed)
		if err == nil {
			return x, nil
		}
		if !isDamage(err) && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	aside, err := discardIndex(osDisk{}, path)
	if err != nil {
		return nil, err
	}
	if err := createIndex(temp, path, sealed); err != nil {
		return nil, err
	}
	x, err := tryIndex(path, sealed)
	if x != nil {
		x.aside = aside
	}
	return x, err
}

// errIndexVersion means that another version of the program created the index.
var errIndexVersion = errors.New("blockstore: the index has another version")

// isDamage reports whether an index with this error has to be rebuilt.
func isDamage(err error) bool {
	var e *sqlite.Error
	if errors.As(err, &e) {
		code := e.Code() & 0xff
		return code == sqlite3.SQLITE_CORRUPT || code == sqlite3.SQLITE_NOTADB ||
			code == sqlite3.SQLITE_FORMAT
	}
	return errors.Is(err, errIndexVersion)
}

// makePrivate gives the index and the files beside it mode 0600. SQLite gives files that it creates
// beside a database the database's mode, so this comes before SQLite opens it. SQLite also follows
// links, so what is not a file is an error.
func makePrivate(path string) error {
	for _, suffix := range indexSuffixes { // a crash may have left the others
		info, err := os.Lstat(path + suffix)
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("blockstore: %s: %w", path+suffix, errNoFile)
		}
		if err == nil {
			err = os.Chmod(path+suffix, 0o600)
		}
		if err != nil && (suffix == "" || !errors.Is(err, os.ErrNotExist)) {
			return err
		}
	}
	return nil
}

// openSQLite opens the database at path.
func openSQLite(path string, pragmas ...string) (*sql.DB, error) {
	options := url.Values{"_pragma": append(pragmas, fmt.Sprintf("busy_timeout(%d)", busyTimeoutMS),
		fmt.Sprintf("page_size(%d)", indexPageBytes)), "_txlock": {"immediate"}}
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: options.Encode()}
	return sql.Open("sqlite", dsn.String())
}

// version returns the version of an index, of an encrypted folder or another one.
func version(sealed bool) int {
	if sealed {
		return sealedVersion
	}
	return schemaVersion
}

// createIndex writes an empty index to temp and renames it to path. So the index is whole or
// absent: SQLite writes the header of a new database before its application ID, and after a crash
// in between, isIndex would not know the file.
func createIndex(temp, path string, sealed bool) (err error) {
	if err := os.MkdirAll(filepath.Dir(temp), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	if err := f.Close(); err != nil {
		return err
	}
	db, err := openSQLite(temp, "journal_mode(MEMORY)") // no second file
	if err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf(
		"BEGIN IMMEDIATE; PRAGMA application_id = %d; PRAGMA user_version = %d; %s COMMIT",
		applicationID, version(sealed), schema))
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// tryIndex opens the index at path.
func tryIndex(path string, sealed bool) (*index, error) {
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	db, err := openSQLite(path, "journal_mode(WAL)", "synchronous(NORMAL)",
		"journal_size_limit(8388608)", "cache_size(-4096)", "secure_delete(ON)")
	if err != nil {
		return nil, err
	}
	x := &index{db: db, adopted: make(chan struct{})}
	x.db.SetMaxOpenConns(indexConns)
	x.db.SetMaxIdleConns(indexConns)
	if err := x.prepare(path, sealed); err != nil {
		return nil, errors.Join(err, x.db.Close())
	}
	return x, nil
}

func (x *index) prepare(path string, sealed bool) error {
	var id, found int
	if err := x.db.QueryRow("SELECT * FROM pragma_application_id, pragma_user_version").Scan(&id,
		&found); err != nil {
		return err
	}
	if want := version(sealed); id != applicationID || found != want {
		return fmt.Errorf("%w: application %#x version %d, expected %#x version %d",
			errIndexVersion, id, found, applicationID, want)
	}
	err := x.db.QueryRow("SELECT complete FROM totals").Scan(&x.complete)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("%w: it has no totals", errIndexVersion)
	} else if err != nil {
		return err
	}
	if x.complete {
		close(x.adopted)
	}
	if err := x.find.prepare(x.db); err != nil {
		// SQLITE_ERROR means a missing table or column: another version created the tables,
		// whatever the version number says.
		if e := (*sqlite.Error)(nil); errors.As(err, &e) && e.Code() == sqlite3.SQLITE_ERROR {
			return fmt.Errorf("%w: %v", errIndexVersion, err)
		}
		return err
	}
	x.info, err = os.Stat(path)
	return err
}

// replaced reports whether the file at path is no longer the open one.
func (x *index) replaced(path string) bool {
	info, err := os.Stat(path)
	return err != nil || !os.SameFile(info, x.info)
}

func (x *index) close() error { return x.db.Close() }

// tx runs fn in a transaction that excludes other writers.
func (x *index) tx(fn func(tx *sql.Tx) error) error {
	tx, err := x.db.Begin()
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		tx.Rollback() // err is the cause
		return err
	}
	return tx.Commit()
}

// modelID returns the row ID of a model. It creates the row or updates the name if necessary.
func modelID(tx *sql.Tx, m Model) (id int64, err error) {
	err = tx.QueryRow(`INSERT INTO models (fingerprint, format, name) VALUES (?, ?, ?)
		ON CONFLICT DO UPDATE SET name = excluded.name RETURNING id`, m.Fingerprint, m.Format, m.Name).Scan(&id)
	return id, err
}

// tick returns the next value of the recency counter.
func tick(tx *sql.Tx) (clock int64, err error) {
	err = tx.QueryRow("UPDATE totals SET clock = clock + 1 RETURNING clock").Scan(&clock)
	return clock, err
}

// touch sets the recency of an entry and of all entries before it to clock.
func touch(tx *sql.Tx, k Key, clock int64) error {
	_, err := tx.Exec(`WITH RECURSIVE path (key, parent) AS (
			SELECT key, parent FROM entries WHERE key = ?
			UNION SELECT e.key, e.parent FROM entries e JOIN path ON e.key = path.parent)
		UPDATE entries SET used = ? WHERE key IN (SELECT key FROM path)`, k[:], clock)
	return err
}

// dropRow removes an entry's row. A pin on the entry moves to the parent, so that the entries
// before it stay protected. The entry's key is destroyed.
func (s *Store) dropRow(tx *sql.Tx, k Key) (dropped bool, err error) {
	if err := s.destroySlot(tx, k); err != nil {
		return false, err
	}
	moved, err := changedRows(tx.Exec(`UPDATE entries SET pin = 1
		WHERE key = (SELECT parent FROM entries WHERE key = ? AND pin = 1)`, k[:]))
	if err != nil {
		return false, err
	}
	n, err := changedRows(tx.Exec("DELETE FROM entries WHERE key = ?", k[:]))
	if err == nil && moved > 0 {
		err = s.repin(tx) // the parent may be younger than the pin, if it was lost once
	}
	return n > 0, err
}

func changedRows(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}
