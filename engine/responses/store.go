package responses

// Responses are kept in memory, never on disk: a restart forgets them. When there is no room, the
// API key that holds most makes it: those of its responses go that were not used for the longest
// time. So nobody can push out what others hold below an equal share. A response has the items of
// its own input and output. What was before is in the responses before it.

import (
	"bytes"
	"cmp"
	"container/list"
	"encoding/json"
	"slices"
	"sync"

	"headroom/engine/generate"
	"headroom/engine/jsonbody"
	"headroom/engine/problem"
)

// storeBytes is the memory for responses: months of a person's conversations, or minutes of a
// program's.
const storeBytes = 64 << 20

// Store keeps responses, and knows which are being generated. A nil Store keeps nothing. Methods
// may be called from many goroutines.
type Store struct {
	limit int

	mu      sync.Mutex
	entries map[string]*entry
	items   map[string]owned // by their IDs
	owners  map[string]*owner
	bytes   int // of all entries
}

// owner is what one API key holds of a Store.
type owner struct {
	used  *list.List // of *entry, the most recently used first
	bytes int
}

// entry is a response of a Store.
type entry struct {
	id, previous string
	input        []item
	output       []item
	response     *Response // nil: not begun
	cancel       func()    // nil: it is not being generated
	kept         bool      // it stays when its request ends
	bytes        int
	key          string        // the name of the API key; "": it has none
	place        *list.Element // in the list of its owner
}

// item is a stored item with its ID.
type item struct {
	id   string
	made bool // the ID was made here: nobody can guess it, or give it to another item
	raw  json.RawMessage
}

// owned is an item of an entry.
type owned struct {
	entry *entry
	item  json.RawMessage
}

// What an entry and an item take beside their texts, in bytes.
const (
	entryBytes = 1 << 10
	itemBytes  = 1 << 8
)

// maxPastBytes limits what a request takes from the store. Its own items have the limits of a body.
const maxPastBytes = 8 << 20

// NewStore returns an empty Store.
func NewStore() *Store {
	s := &Store{limit: storeBytes}
	s.clear()
	return s
}

func (s *Store) clear() {
	s.entries, s.items, s.bytes = map[string]*entry{}, map[string]owned{}, 0
	s.owners = map[string]*owner{}
}

// Forget forgets all responses.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// begin adds a response whose request has been read, for an API key with a name. It copies the
// items of the input.
func (s *Store) begin(id, key string, r *Request) {
	if s == nil {
		return
	}
	e := &entry{id: id, previous: r.Previous, key: key}
	if r.Store && r.Cache != generate.CacheNone {
		for _, raw := range r.input {
			e.input = append(e.input, normalized(raw))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[id] = e
	o := s.owners[key]
	if o == nil {
		o = &owner{used: list.New()}
		s.owners[key] = o
	}
	e.place = o.used.PushFront(e)
	s.grow(e, entryBytes+size(e.input))
}

// size returns the memory of items.
func size(items []item) (n int) {
	for _, one := range items {
		n += itemBytes + len(one.id) + cap(one.raw)
	}
	return n
}

// grow counts the memory of an entry. The owner that holds most makes room. An entry that is larger
// than the store is dropped.
func (s *Store) grow(e *entry, n int) {
	e.bytes += n
	s.owners[e.key].bytes += n
	s.bytes += n
	if e.bytes > s.limit {
		s.drop(e)
	}
	for s.bytes > s.limit {
		s.drop(s.largest().used.Back().Value.(*entry))
	}
}

// largest returns the owner that holds most. There is one.
func (s *Store) largest() (largest *owner) {
	for _, o := range s.owners {
		if largest == nil || o.bytes > largest.bytes {
			largest = o
		}
	}
	return largest
}

// touch marks an entry as used.
func (s *Store) touch(e *entry) { s.owners[e.key].used.MoveToFront(e.place) }

// index makes the items of a kept entry known by their IDs, if these were made here. An ID that a
// client has chosen could be that of another client's item.
func (s *Store) index(e *entry, items []item) {
	if s.entries[e.id] != e {
		return // there was no room
	}
	for _, one := range items {
		if one.made {
			s.items[one.id] = owned{e, one.raw}
		}
	}
}

// drop forgets an entry.
func (s *Store) drop(e *entry) {
	if s.entries[e.id] != e {
		return
	}
	delete(s.entries, e.id)
	o := s.owners[e.key]
	o.used.Remove(e.place)
	o.bytes -= e.bytes
	s.bytes -= e.bytes
	if o.used.Len() == 0 {
		delete(s.owners, e.key)
	}
	for _, one := range slices.Concat(e.input, e.output) {
		if s.items[one.id].entry == e {
			delete(s.items, one.id)
		}
	}
}

// cancellable says how to cancel the generation of a response.
func (s *Store) cancellable(id string, cancel func()) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil {
		e.cancel = cancel
	}
}

// put keeps a response as it is now. It copies it. It reports false if there is no room.
func (s *Store) put(response Response) bool {
	if s == nil {
		return false
	}
	output := make([]item, len(response.Output))
	for i, one := range response.Output {
		raw, err := json.Marshal(one)
		if err != nil {
			return false // never: items have only texts
		}
		output[i] = item{itemID(raw), true, raw}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[response.ID]
	if e == nil {
		return false
	}
	e.response = &response
	if e.kept = response.Status != statusInProgress; !e.kept {
		return true
	}
	e.output, e.cancel = output, nil
	s.grow(e, 2*size(output)+response.echoBytes())
	s.index(e, slices.Concat(e.input, output))
	return s.entries[e.id] == e
}

// end ends the request for a response. One that put has not completed is forgotten.
func (s *Store) end(id string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil {
		if e.cancel = nil; !e.kept {
			s.drop(e)
		}
	}
}

// find returns a response that has begun.
func (s *Store) find(id string) (*entry, error) {
	e := s.entries[id]
	if e == nil || e.response == nil {
		return nil, problem.New(problem.NotFound, "There is no response "+shorten(id),
			"responses are kept in memory while there is room, unless \"store\" is false", "")
	}
	s.touch(e)
	return e, nil
}

// shorten bounds an ID in an error.
func shorten(id string) string {
	const most = 80
	if runes := []rune(id); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return id
}

// get returns a response.
func (s *Store) get(id string) (Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(id)
	if err != nil {
		return Response{}, err
	}
	return *e.response, nil
}

// delete forgets a response. If it is being generated, it is cancelled.
func (s *Store) delete(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(id)
	if err != nil {
		return err
	}
	if e.cancel != nil {
		e.cancel()
	}
	s.drop(e)
	return nil
}

// cancel cancels the generation of a response, and returns the response as it will be.
func (s *Store) cancel(id string) (Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(id)
	if err != nil {
		return Response{}, err
	}
	response := *e.response
	if e.cancel == nil {
		return response, badParam("response_id", "the response is %s: there is nothing to cancel",
			response.Status)
	}
	e.cancel()
	response.Status = statusCancelled
	return response, nil
}

// item returns an item of a response by its ID.
func (s *Store) item(id string) (json.RawMessage, bool) {
	if s == nil {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.items[id]
	return found.item, ok
}

// conversation returns the items of a response and of those before it, in order. Its error is that
// of previous_response_id.
func (s *Store) conversation(id string) (all []json.RawMessage, err error) {
	items, err := s.past(id)
	switch {
	case err != nil:
		return nil, badParam("previous_response_id", "%v. Send the whole conversation as input",
			err)
	case size(items) > maxPastBytes:
		return nil, badParam("previous_response_id", "the conversation has more than %d MiB. "+
			"Begin another one with a summary", maxPastBytes>>20)
	}
	for _, one := range items {
		all = append(all, one.raw)
	}
	return all, nil
}

// inputOf returns the items from which a response was generated, in order.
func (s *Store) inputOf(id string) ([]item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, err := s.find(id)
	if err != nil {
		return nil, err
	}
	before, err := s.walk(e.previous)
	if err != nil {
		return nil, problem.New(problem.NotFound, "The input of response "+shorten(id)+
			" is no longer complete", problem.From(err).Message, "")
	}
	return slices.Concat(before, e.input), nil
}

func (s *Store) past(id string) ([]item, error) {
	if s == nil {
		return nil, problem.New(problem.NotFound, "nothing is stored", "", "")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.walk(id)
}

// walk returns the items of a response and of those before it. Those before are marked as used more
// recently, so that no response goes before those that need it.
func (s *Store) walk(id string) (all []item, err error) {
	var chain []*entry
	for ; id != ""; id = chain[len(chain)-1].previous {
		e := s.entries[id]
		switch {
		case e == nil && len(chain) == 0:
			return nil, problem.New(problem.NotFound, "no response "+shorten(id)+" is stored", "",
				"")
		case e == nil:
			return nil, problem.New(problem.NotFound, "the response "+shorten(id)+
				", which was before it, is no longer stored", "", "")
		case !e.kept || e.response.Status == statusFailed || e.response.Status == statusCancelled:
			return nil, problem.New(problem.NotFound,
				"the response "+shorten(id)+" is not complete", "", "")
		}
		s.touch(e)
		chain = append(chain, e)
	}
	for _, e := range slices.Backward(chain) {
		all = append(append(all, e.input...), e.output...)
	}
	return all, nil
}

// idPrefixes are those of the IDs of items.
var idPrefixes = map[string]string{"message": "msg_", "reasoning": "rs_", "function_call": "fc_",
	"custom_tool_call": "ctc_", "function_call_output": "fco_", "custom_tool_call_output": "ctco_"}

// normalized returns a copy of an item of the input in the form of a list: with a type, with an ID,
// and with an array as the content of a message. The item is valid.
func normalized(raw json.RawMessage) item {
	kind, _ := kindOf(raw, "")
	made := kind.ID == ""
	if made {
		kind.ID = generate.NewID(cmp.Or(idPrefixes[kind.Type], "item_"))
	}
	var b bytes.Buffer
	b.WriteString(`{"type":` + quote(kind.Type) + `,"id":` + quote(kind.ID))
	_ = jsonbody.Members(jsonbody.Trimmed(raw), func(name string, value []byte) *Error {
		if name == "type" || name == "id" {
			return nil
		}
		b.WriteString(`,` + quote(name) + `:`)
		if name != "content" || jsonbody.Kind(value) != "a string" {
			b.Write(value)
			return nil
		}
		part := "input_text"
		if kind.Role == "assistant" {
			part = "output_text"
		}
		b.WriteString(`[{"type":"` + part + `","text":`)
		b.Write(value)
		b.WriteString(`}]`)
		return nil
	})
	b.WriteByte('}')
	return item{kind.ID, made, bytes.Clone(b.Bytes())} // without the room to grow
}

// itemID returns the ID of a valid item.
func itemID(raw json.RawMessage) string {
	kind, _ := kindOf(raw, "")
	return kind.ID
}
