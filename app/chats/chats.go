// Package chats keeps the Chat page's conversations on disk, so that window and browser show the
// same ones.
//
//	folder/ID.json      a conversation: a line with its header, then a line for each message (file.go)
//	folder/.ID.json*    one being written; a crash leaves it behind, and Open removes it
//
// A file is replaced as a whole (temporary file, fsync, rename): whatever ends the program, there
// is the old one or the new one. It is readable by its owner alone.
//
// Several pages may write. Each write names the revision that it builds on, and is refused if that
// is not the file's: who is refused keeps what it has under another ID, so that nothing that was
// said is lost. That check is a program's own: two programs over one folder see each other's files,
// and only a write of both within the same milliseconds is not noticed.
//
// A damaged file, or one from a later Headroom, is listed with what is wrong with it, shown as far
// as it can be read, and never written over.
package chats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
)

// The limits, far above what people write.
const (
	mostBytes    = 16 << 20 // of one conversation
	mostMessages = 10_000   // in one
	mostChats    = 10_000
	mostTitle    = 200 // characters
)

// MostBodyBytes is the longest JSON of a Change that is worth reading.
const MostBodyBytes = mostBytes

const (
	suffix = ".json"
	// leftover is the age at which a temporary file is one that a crash left behind.
	leftover = time.Minute
)

// Message is a question or an answer.
type Message struct {
	ID        string `json:"id"`
	Role      string `json:"role"` // "user" or "assistant"
	Content   string `json:"content"`
	Reasoning string `json:"reasoning,omitempty"`
	Calls     []Call `json:"calls,omitempty"`
	// What reasoning took.
	ReasoningTokens  int     `json:"reasoningTokens,omitempty"`
	ReasoningSeconds float64 `json:"reasoningSeconds,omitempty"`
	Model            string  `json:"model,omitempty"`
	// End is how an answer ended: "stop", "length", "stopped" or "error"; "" of a question, and of
	// an answer that is or was being written.
	End   string   `json:"end,omitempty"`
	Error *Fault   `json:"error,omitempty"`
	Stats *Figures `json:"stats,omitempty"`
}

// Call is a function that the model asked for.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, as the model wrote it
}

// Fault is why an answer failed.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Why     string `json:"why"`
	Fix     string `json:"fix"`
}

// Figures are what an answer took.
type Figures struct {
	PromptTokens      int     `json:"promptTokens"`
	CachedTokens      int     `json:"cachedTokens"`
	AnswerTokens      int     `json:"answerTokens"`
	Estimated         bool    `json:"estimated"` // the tokens were counted by their arrival
	TokensPerSecond   float64 `json:"tokensPerSecond"`
	FirstTokenSeconds float64 `json:"firstTokenSeconds"`
}

// Summary is a conversation without what was said in it.
type Summary struct {
	ID              string `json:"id"`
	Title           string `json:"title"`
	UpdatedAtUnixMs int64  `json:"updatedAt"`
	Messages        int    `json:"messages"`
	Revision        int    `json:"revision"` // counts the writes; 0: it was never written
	// Damage is what is wrong with the file; "": nothing. Such a file is never written over.
	Damage string `json:"damage"`
	Path   string `json:"path"` // of the file
	// Excerpt is where the text that was looked for stands; "" where nothing was, or the title has
	// it.
	Excerpt string `json:"excerpt"`
}

// Chat is a conversation.
type Chat struct {
	Summary  Summary   `json:"summary"`
	Messages []Message `json:"messages"`
}

// Change replaces the messages of a conversation from one on.
type Change struct {
	Revision        int       `json:"revision"` // that it builds on; 0: the conversation is new
	Title           string    `json:"title"`
	UpdatedAtUnixMs int64     `json:"updatedAt"` // 0: now
	From            int       `json:"from"`      // so many messages stay
	Messages        []Message `json:"messages"`
	// Overtakes says that another write from the same page, which builds on the same revision, may
	// arrive before this one or after it. It holds all that the other one does, so this one is good
	// either way, and the other one only if it comes first.
	Overtakes bool `json:"overtakes,omitempty"`
}

// Store is the folder. Its methods may be called from any goroutine.
type Store struct {
	dir string

	mu       sync.Mutex
	version  int
	modified time.Time        // of the folder, when version was last counted up
	known    map[string]known // by ID
	watchers map[chan struct{}]bool
}

// known is a summary that needs no reading as long as the file is the same.
type known struct {
	bytes    int64
	modified time.Time
	summary  Summary
}

// Open uses the folder, which need not exist.
func Open(dir string) *Store {
	s := &Store{dir: dir, known: map[string]known{}, watchers: map[chan struct{}]bool{}}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !disk.IsTemporary(e.Name(), suffix) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > leftover {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
	return s
}

// Version is another number whenever something was written or removed, by another program too.
func (s *Store) Version() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.folderModified(); !now.Equal(s.modified) {
		s.modified = now
		s.version++
	}
	return s.version
}

func (s *Store) folderModified() time.Time {
	info, err := os.Stat(s.dir)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Subscribe tells of this program's writes and removals until done is called.
func (s *Store) Subscribe() (changed <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[c] = true
	return c, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.watchers, c)
	}
}

// List has all conversations, those changed last first.
func (s *Store) List() ([]Summary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list()
}

func (s *Store) list() ([]Summary, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unreadable(err)
	}
	list, seen := []Summary{}, map[string]known{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || !validID.MatchString(id) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		one, ok := s.known[id]
		if !ok || one.bytes != info.Size() || !one.modified.Equal(info.ModTime()) {
			one = known{info.Size(), info.ModTime(), summarize(s.path(id), id, info)}
		}
		seen[id] = one
		list = append(list, one.summary)
	}
	s.known = seen
	slices.SortFunc(list, func(a, b Summary) int {
		return cmp.Or(cmp.Compare(b.UpdatedAtUnixMs, a.UpdatedAtUnixMs), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// Read gives a conversation; of a damaged one, what can be read.
func (s *Store) Read(id string) (Chat, error) {
	if err := checkID(id); err != nil {
		return Chat{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(id)
}

func (s *Store) read(id string) (Chat, error) {
	data, info, err := readFile(s.path(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Chat{}, problem.New(problem.NotFound, "This conversation is not here any more",
			"there is no file "+s.path(id), "It was deleted, here or in another window.")
	case err != nil:
		return Chat{}, unreadable(err)
	}
	c := parse(data, id)
	c.Summary.Path = s.path(id)
	if c.Summary.UpdatedAtUnixMs == 0 {
		c.Summary.UpdatedAtUnixMs = info.ModTime().UnixMilli()
	}
	return c, nil
}

// Write changes a conversation, or makes one. A problem.Changed says that the file is not what the
// change builds on.
func (s *Store) Write(id string, c Change) (Summary, error) {
	if err := checkID(id); err != nil {
		return Summary{}, err
	}
	if err := check(c); err != nil {
		return Summary{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.base(id, c)
	if err != nil {
		return Summary{}, err
	}
	title := c.Title
	if runes := []rune(title); len(runes) > mostTitle {
		title = string(runes[:mostTitle])
	}
	after := Chat{Messages: append(before[:c.From:c.From], c.Messages...)}
	after.Summary = Summary{ID: id, Title: title,
		UpdatedAtUnixMs: cmp.Or(c.UpdatedAtUnixMs, time.Now().UnixMilli()),
		Messages:        len(after.Messages), Revision: c.next(), Path: s.path(id)}
	data := encode(after)
	if len(data) > mostBytes {
		return Summary{}, problem.New(problem.TooLarge, "This conversation is too long to be kept",
			fmt.Sprintf("it takes %d bytes, the limit is %d", len(data), mostBytes),
			"Begin a new chat.")
	}
	if err := s.replace(s.path(id), data); err != nil {
		return Summary{}, unwritable(err, s.dir)
	}
	delete(s.known, id) // a clock may be too slow to tell
	s.changed()
	return after.Summary, nil
}

// next is the revision after the change: one more, or one more than the write that it overtakes
// makes.
func (c Change) next() int {
	if c.Overtakes {
		return c.Revision + 2
	}
	return c.Revision + 1
}

// buildsOn says whether a file of that revision is what the change expects.
func (c Change) buildsOn(revision int) bool {
	return revision == c.Revision || c.Overtakes && revision == c.Revision+1
}

// base is what a change builds on.
func (s *Store) base(id string, c Change) ([]Message, error) {
	before, err := s.read(id)
	switch {
	case c.Revision == 0 && err == nil && !c.Overtakes:
		return nil, changed(id, "there is one of that name already")
	case c.Revision == 0 && problem.From(err).Code == problem.NotFound:
		return nil, s.roomForOne()
	case err != nil:
		if problem.From(err).Code == problem.NotFound {
			return nil, changed(id, "it was deleted")
		}
		return nil, err
	case before.Summary.Damage != "":
		return nil, changed(id, "its file is left as it is: "+before.Summary.Damage)
	case !c.buildsOn(before.Summary.Revision):
		return nil, changed(id, fmt.Sprintf("revision %d is here, %d was expected",
			before.Summary.Revision, c.Revision))
	case c.From > len(before.Messages):
		return nil, changed(id, fmt.Sprintf("it has %d messages, %d were to stay",
			len(before.Messages), c.From))
	case c.From+len(c.Messages) > mostMessages:
		return nil, problem.New(problem.TooLarge,
			"This conversation has too many messages to be kept",
			fmt.Sprintf("the limit is %d", mostMessages), "Begin a new chat.")
	}
	return before.Messages, nil
}

func (s *Store) roomForOne() error {
	list, err := s.list()
	if err == nil && len(list) >= mostChats {
		err = problem.New(problem.TooLarge, "There are too many conversations",
			fmt.Sprintf("there are %d, which is the limit", len(list)),
			"Delete some that you do not need.")
	}
	return err
}

// Remove deletes a conversation's file.
func (s *Store) Remove(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.Remove(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // by another window
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The conversation could not be deleted",
			"Look whether you may change the files in "+s.dir+".")
	}
	disk.SyncDir(s.dir)
	s.changed()
	return nil
}

// changed is called with the lock held.
func (s *Store) changed() {
	s.version++
	s.modified = s.folderModified()
	for c := range s.watchers {
		select {
		case c <- struct{}{}:
		default: // it has not looked since the last time
		}
	}
}

func (s *Store) path(id string) string { return filepath.Join(s.dir, id+suffix) }

// replace writes a conversation's file atomically and syncs the folder.
func (s *Store) replace(path string, data []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if err := disk.WriteFile(path, data, 0o600); err != nil {
		return err
	}
	disk.SyncDir(s.dir)
	return nil
}

// validID keeps names to what every file system takes and tells apart: no letter has two cases,
// nothing leads elsewhere.
var validID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

func checkID(id string) error {
	if !validID.MatchString(id) {
		return problem.New(problem.BadRequest, "There is no conversation of such a name",
			fmt.Sprintf("got %.80q, expected up to 64 small letters, digits and hyphens", id),
			"Take an ID from the list, or such a one for a new conversation.")
	}
	return nil
}

// check looks at what a page has sent, before any file is touched.
func check(c Change) error {
	wrong := ""
	if c.Revision < 0 || c.From < 0 || c.UpdatedAtUnixMs < 0 {
		wrong = "revision, from and updatedAt are 0 or more"
	} else if c.Revision == 0 && c.From > 0 {
		wrong = "nothing can stay of a conversation that is new: from is 0 then"
	} else if len(c.Messages) > mostMessages {
		wrong = fmt.Sprintf("%d messages are sent, the limit is %d", len(c.Messages), mostMessages)
	}
	for i := range c.Messages {
		if fault := c.Messages[i].fault(); fault != "" && wrong == "" {
			wrong = fmt.Sprintf("message %d: %s", i, fault)
		}
	}
	if wrong != "" {
		return problem.New(problem.BadRequest, "This conversation cannot be kept", wrong,
			"Send messages as reading a conversation gives them.")
	}
	return nil
}

var ends = []string{"", "stop", "length", "stopped", "error"}

// fault is what no message of ours has; "": it could be one.
func (m *Message) fault() string {
	switch {
	case m.Role != "user" && m.Role != "assistant":
		return fmt.Sprintf("role is %.40q, expected user or assistant", m.Role)
	case !slices.Contains(ends, m.End):
		return fmt.Sprintf("end is %.40q, expected one of %q", m.End, ends)
	case m.ID == "":
		return "it has no id"
	}
	return ""
}

func changed(id, why string) error {
	return problem.New(problem.Changed, "This conversation was changed elsewhere",
		"conversation "+id+": "+why, "Keep yours under another ID, or read it again.")
}

func unreadable(err error) error {
	return problem.Wrap(problem.Internal, err, "The conversations cannot be read",
		"Look whether the file or folder is yours, and whether its disk is there.")
}

func unwritable(err error, dir string) error {
	if disk.IsFull(err) {
		return problem.Wrap(problem.DiskFull, err, "There is no room for this conversation",
			"Make room on the disk of "+dir+".")
	}
	return problem.Wrap(problem.Internal, err, "This conversation could not be kept",
		"Look whether you may write into "+dir+".")
}
