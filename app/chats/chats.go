// Package chats stores the Chat page's conversations on disk, so that window and browser show the
// same ones.
//
//	folder/ID.chat      a conversation, encrypted (sealed.go): a header line, then a line for each
//	                    message (file.go)
//	folder/ID.salt      32 random bytes, without which ID.chat is noise
//	folder/ID.json      a conversation of an earlier Headroom, not encrypted (migrate.go)
//	folder/.ID.chat*    a temporary file; Open removes those that a crash left behind
//
// Files are replaced atomically: after a crash, a file has the old or the new conversation. Only
// the user can read it. Each conversation has a key of its own, derived from the installation's key
// and its salt. Deleting a conversation overwrites the salt first.
//
// Without the installation's key, conversations can be neither read nor written, and none is
// deleted: every method then returns a Problem with the code problem.Locked. A folder without
// conversations needs no key.
//
// Several pages and programs may write. Each write names the revision that it builds on, and fails
// if the file has another revision. The page then saves its version under another ID, so that
// nothing is lost. A lock on the folder makes that atomic across programs.
//
// A damaged file, or a file of a later Headroom, is listed with a description of the damage. Its
// readable part is shown, and it is never overwritten. What is not certainly a Store's file is not
// removed, either; see IsOurs. A salt has no mark: every file of 32 bytes with a salt's name counts
// as one.
package chats

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"headroom/app/disk"
	"headroom/engine/problem"
	"headroom/engine/seal"
)

// Limits, far above what people write.
const (
	maxBytes    = 16 << 20 // of a conversation
	maxMessages = 10_000   // of a conversation
	maxChats    = 10_000
	maxTitle    = 200 // characters
)

// MaxBodyBytes is the size of the largest valid Change as JSON.
const MaxBodyBytes = maxBytes

// Message is a question or an answer.
type Message struct {
	ID        string `json:"id"`
	Role      string `json:"role"` // "user" or "assistant"
	Content   string `json:"content"`
	Reasoning string `json:"reasoning,omitempty"`
	Calls     []Call `json:"calls,omitempty"`
	// ReasoningTokens and ReasoningSeconds are the cost of Reasoning.
	ReasoningTokens  int     `json:"reasoningTokens,omitempty"`
	ReasoningSeconds float64 `json:"reasoningSeconds,omitempty"`
	Model            string  `json:"model,omitempty"`
	// End says how an answer ended: "stop", "length", "stopped" or "error". It is "" for a question
	// and for an answer that has not ended.
	End   string   `json:"end,omitempty"`
	Error *Fault   `json:"error,omitempty"`
	Stats *Figures `json:"stats,omitempty"`
	// Attachments are the files of a question. The model reads their texts before Content.
	Attachments []Attachment `json:"attachments,omitempty"`
	// Others are the other versions of the conversation from this message on: before a question was
	// edited, or with another answer. Version is the place of the version shown among all of them.
	Others  [][]Message `json:"others,omitempty"`
	Version int         `json:"version,omitempty"`
}

// Attachment is a file that was added to a question, as text.
type Attachment struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Pages int    `json:"pages,omitempty"` // of a PDF
}

// Setup is what a conversation is answered with.
type Setup struct {
	Prompt string `json:"prompt,omitempty"` // the system prompt
	Preset string `json:"preset,omitempty"` // the name of the preset that it comes from
	Model  string `json:"model,omitempty"`  // picked for the next answers; "" for the one in front
	// Sampling overrides the sampling values of the model, by the names of the page. An empty map
	// is a preset without any; nil: those of the window.
	Sampling map[string]float64 `json:"sampling,omitzero"`
}

// Call is a tool call of the model.
type Call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, as the model wrote it
}

// Fault is the error of a failed answer.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Why     string `json:"why"`
	Fix     string `json:"fix"`
}

// Figures are the statistics of an answer.
type Figures struct {
	PromptTokens      int     `json:"promptTokens"`
	CachedTokens      int     `json:"cachedTokens"`
	AnswerTokens      int     `json:"answerTokens"`
	DraftTokens       int     `json:"draftTokens"`    // proposed ahead
	AcceptedTokens    int     `json:"acceptedTokens"` // of these, the ones that the model chose
	Estimated         bool    `json:"estimated"`      // the page counted the tokens as they arrived
	TokensPerSecond   float64 `json:"tokensPerSecond"`
	FirstTokenSeconds float64 `json:"firstTokenSeconds"`
}

// Summary is a conversation without its messages.
type Summary struct {
	ID              string `json:"id"`
	Title           string `json:"title"`
	UpdatedAtUnixMs int64  `json:"updatedAt"`
	Messages        int    `json:"messages"`
	Revision        int    `json:"revision"` // number of writes; 0: never written
	// Damage describes what is wrong with the file; "": nothing. A damaged file is never
	// overwritten.
	Damage string `json:"damage"`
	Path   string `json:"path"` // of the file
	// Excerpt is the text around a search match; "" without a search, or if the title matches.
	Excerpt string `json:"excerpt"`
}

// Chat is a conversation with its messages.
type Chat struct {
	Summary  Summary   `json:"summary"`
	Messages []Message `json:"messages"`
	Setup    *Setup    `json:"setup,omitempty"`
}

// Change replaces the messages of a conversation from index From on.
type Change struct {
	Revision        int       `json:"revision"` // that the change builds on; 0: a new conversation
	Title           string    `json:"title"`
	UpdatedAtUnixMs int64     `json:"updatedAt"` // 0: now
	From            int       `json:"from"`      // number of messages to keep
	Messages        []Message `json:"messages"`
	// Setup replaces the conversation's setup; nil keeps it.
	Setup *Setup `json:"setup,omitempty"`
	// Overtakes means that the page has sent an earlier write that builds on the same revision, and
	// that this write contains it. This write succeeds even if the earlier one arrives first. The
	// earlier one fails if it arrives second.
	Overtakes bool `json:"overtakes,omitempty"`
}

// Store is a folder of conversations. Its methods are safe for concurrent use.
type Store struct {
	dir string
	key func() (seal.Key, error) // of the installation; the error is a Problem

	mu       sync.Mutex
	locked   bool // this store holds the folder's lock
	version  int
	modified time.Time        // modification time of the folder at that version
	known    map[string]known // by ID
	watchers map[chan struct{}]bool
	erased   map[string]bool // IDs that Erase has removed
}

// known is the cached summary of a file. It is valid while the size and modification time of the
// file and of its salt stay the same.
type known struct {
	bytes    int64
	modified time.Time
	salt     string // the state of the salt's file
	summary  Summary
}

// Open returns the store in dir, which need not exist. key returns the installation's key, or a
// Problem. It is called whenever the key is needed, and not by Open.
func Open(dir string, key func() (seal.Key, error)) *Store {
	s := &Store{dir: dir, key: key, known: map[string]known{},
		watchers: map[chan struct{}]bool{}}
	disk.RemoveTemporary(dir, func(name string) bool {
		id, ok := strings.CutSuffix(name, suffix)
		if !ok {
			id, ok = strings.CutSuffix(name, saltSuffix)
		}
		if !ok {
			id, ok = strings.CutSuffix(name, plainSuffix)
		}
		return ok && validID.MatchString(id)
	})
	return s
}

// Version returns a number that changes whenever a file is written or removed, by any program.
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

// Subscribe returns a channel that receives a value after this program's writes and removals, until
// done is called.
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

// List returns all conversations, the latest change first.
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
	ids := conversations(entries)
	if len(ids) == 0 {
		return list, nil
	}
	k, err := s.keys()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		path := s.migrated(k, id)
		info, err := os.Lstat(path)
		if err != nil {
			continue // removed since ReadDir
		}
		one, ok := s.known[id]
		salt := s.saltState(id)
		if !ok || one.bytes != info.Size() || !one.modified.Equal(info.ModTime()) ||
			one.salt != salt || one.summary.Path != path {
			one = known{info.Size(), info.ModTime(), salt, k.summarize(path, id, info)}
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

// saltState describes the file of a conversation's salt, so that a change is noticed.
func (s *Store) saltState(id string) string {
	info, err := os.Lstat(s.saltPath(id))
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Mode(), info.Size(), info.ModTime().UnixNano())
}

// Read returns a conversation, or the readable part of a damaged one.
func (s *Store) Read(id string) (Chat, error) {
	if err := checkID(id); err != nil {
		return Chat{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(id)
}

func (s *Store) read(id string) (Chat, error) {
	missing := problem.New(problem.NotFound, "This conversation no longer exists",
		"there is no file "+s.path(id), "It was deleted, here or in another window.")
	if !s.exists(id) { // needs no key
		return Chat{}, missing
	}
	k, err := s.keys()
	if err != nil {
		return Chat{}, err
	}
	path := s.migrated(k, id)
	c, info, err := k.read(path, id)
	if errors.Is(err, fs.ErrNotExist) {
		return Chat{}, missing
	}
	if err != nil {
		return Chat{}, problem.Wrap(problem.Internal, err, "This conversation cannot be read",
			"Check that "+path+" is a file that you may read, and that the disk is connected.")
	}
	c.Summary.Path = path
	if c.Summary.UpdatedAtUnixMs == 0 {
		c.Summary.UpdatedAtUnixMs = info.ModTime().UnixMilli()
	}
	return c, nil
}

// Write changes or creates a conversation. The error has the code problem.Changed if the file does
// not have the revision that the change builds on.
func (s *Store) Write(id string, c Change) (Summary, error) {
	if err := checkID(id); err != nil {
		return Summary{}, err
	}
	if err := check(c); err != nil {
		return Summary{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.checkErased(id); err != nil {
		return Summary{}, err
	}
	unlock, err := s.lock()
	if err != nil {
		return Summary{}, err
	}
	defer unlock()
	before, err := s.base(id, c)
	if err != nil {
		return Summary{}, err
	}
	title := c.Title
	if runes := []rune(title); len(runes) > maxTitle {
		title = string(runes[:maxTitle])
	}
	after := Chat{Messages: append(before.Messages[:c.From:c.From], c.Messages...),
		Setup: cmp.Or(c.Setup, before.Setup)}
	after.Summary = Summary{ID: id, Title: title,
		UpdatedAtUnixMs: cmp.Or(c.UpdatedAtUnixMs, time.Now().UnixMilli()),
		Messages:        len(after.Messages), Revision: c.next(), Path: s.path(id)}
	data := encode(after)
	if len(data) > maxBytes {
		return Summary{}, problem.New(problem.TooLarge, "This conversation is too long to save",
			fmt.Sprintf("it has %d bytes; the limit is %d", len(data), maxBytes),
			"Start a new chat.")
	}
	k, err := s.keys()
	if err != nil {
		return Summary{}, err
	}
	if err := s.replace(k, id, data); err != nil {
		return Summary{}, unwritable(err, s.dir)
	}
	delete(s.known, id) // size and time may be unchanged
	s.changed()
	return after.Summary, nil
}

// next returns the revision after the change. It is higher than the revision of the write that this
// one overtakes.
func (c Change) next() int {
	if c.Overtakes {
		return c.Revision + 2
	}
	return c.Revision + 1
}

// buildsOn reports whether the change may replace a file of that revision.
func (c Change) buildsOn(revision int) bool {
	return revision == c.Revision || c.Overtakes && revision == c.Revision+1
}

// base returns the conversation that a change builds on. The error is a Problem.
func (s *Store) base(id string, c Change) (Chat, error) {
	before, err := s.read(id)
	switch {
	case c.Revision == 0 && err == nil && !c.Overtakes:
		return Chat{}, changed(id, "it already exists")
	case c.Revision == 0 && problem.From(err).Code == problem.NotFound:
		return Chat{}, s.checkCount()
	case err != nil:
		if problem.From(err).Code == problem.NotFound {
			return Chat{}, changed(id, "it was deleted")
		}
		return Chat{}, err
	case before.Summary.Damage != "":
		return Chat{}, changed(id, "its file is not overwritten: "+before.Summary.Damage)
	case !c.buildsOn(before.Summary.Revision):
		return Chat{}, changed(id, fmt.Sprintf("it has revision %d, expected %d",
			before.Summary.Revision, c.Revision))
	case c.From > len(before.Messages):
		return Chat{}, changed(id, fmt.Sprintf("it has %d messages, but the change keeps %d",
			len(before.Messages), c.From))
	case c.From+len(c.Messages) > maxMessages:
		return Chat{}, problem.New(problem.TooLarge,
			"This conversation has too many messages to save",
			fmt.Sprintf("the limit is %d", maxMessages), "Start a new chat.")
	}
	return before, nil
}

// checkCount returns a Problem if there are too many conversations to add one.
func (s *Store) checkCount() error {
	list, err := s.list()
	if err == nil && len(list) >= maxChats {
		err = problem.New(problem.TooLarge, "There are too many conversations",
			fmt.Sprintf("there are %d, the limit", len(list)),
			"Delete conversations that you do not need.")
	}
	return err
}

// Remove deletes a conversation. It destroys the conversation's key first.
func (s *Store) Remove(id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.exists(id) {
		return nil // another window has deleted it
	}
	if _, err := s.keys(); err != nil {
		return err
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	err = s.destroy(id)
	if errors.As(err, &notOurs{}) {
		return problem.Wrap(problem.Exists, err, "This conversation could not be deleted",
			"If you do not need the file, delete it yourself, and then the conversation again.")
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "The conversation could not be deleted",
			"Check that you may change the files in "+s.dir+".")
	}
	s.changed()
	return nil
}

// changed notifies the subscribers. The caller holds mu.
func (s *Store) changed() {
	s.version++
	s.modified = s.folderModified()
	for c := range s.watchers {
		select {
		case c <- struct{}{}:
		default: // a value is already waiting
		}
	}
}

// validID allows only IDs that are valid and different file names on every file system, even if it
// ignores case.
var validID = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

func checkID(id string) error {
	if !validID.MatchString(id) {
		return problem.New(problem.BadRequest, "This is not a valid conversation ID",
			fmt.Sprintf("got %.80q, expected up to 64 lower-case letters, digits and hyphens", id),
			"Use an ID from the list, or a new valid one.")
	}
	return nil
}

// check validates a change before any file is touched.
func check(c Change) error {
	wrong := ""
	if c.Revision < 0 || c.From < 0 || c.UpdatedAtUnixMs < 0 {
		wrong = "revision, from and updatedAt must be 0 or more"
	} else if c.Revision == 0 && c.From > 0 {
		wrong = "from must be 0 for a new conversation"
	} else if len(c.Messages) > maxMessages {
		wrong = fmt.Sprintf("it has %d messages; the limit is %d", len(c.Messages), maxMessages)
	}
	for i := range c.Messages {
		if fault := c.Messages[i].fault(); fault != "" && wrong == "" {
			wrong = fmt.Sprintf("message %d: %s", i, fault)
		}
	}
	if wrong != "" {
		return problem.New(problem.BadRequest, "This conversation cannot be saved", wrong,
			"Send messages in the form in which the API returns them.")
	}
	return nil
}

var ends = []string{"", "stop", "length", "stopped", "error"}

// fault describes what is invalid in the message; "": nothing.
func (m *Message) fault() string {
	switch {
	case m.Role != "user" && m.Role != "assistant":
		return fmt.Sprintf("role is %.40q, expected user or assistant", m.Role)
	case !slices.Contains(ends, m.End):
		return fmt.Sprintf("end is %.40q, expected one of %q", m.End, ends)
	case m.ID == "":
		return "it has no id"
	}
	for _, version := range m.Others {
		for i := range version {
			if fault := version[i].fault(); fault != "" {
				return "another version: " + fault
			}
		}
	}
	return ""
}

func changed(id, why string) error {
	return problem.New(problem.Changed, "This conversation was changed elsewhere",
		"conversation "+id+": "+why, "Save your version under another ID, or read it again.")
}

func unreadable(err error) error {
	return problem.Wrap(problem.Internal, err, "The conversations cannot be read",
		"Check the permissions of the file and folder, and that the disk is connected.")
}

func unwritable(err error, dir string) error {
	if disk.IsFull(err) {
		return problem.Wrap(problem.DiskFull, err, "There is no space to save this conversation",
			"Free some space on the disk of "+dir+".")
	}
	return problem.Wrap(problem.Internal, err, "This conversation could not be saved",
		"Check that you may write to "+dir+".")
}
