package responses

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"headroom/engine/problem"
)

// keep puts a complete response with a text into a store, after another one.
func keep(t *testing.T, s *Store, id, previous, text string) bool {
	t.Helper()
	return keepFor(t, s, "", id, previous, text)
}

// keepFor is keep for an API key.
func keepFor(t *testing.T, s *Store, key, id, previous, text string) bool {
	t.Helper()
	body := withParams("")
	if previous != "" {
		body = withParams(`"previous_response_id":"` + previous + `"`)
	}
	r, err := Parse([]byte(body), s)
	if err != nil {
		t.Fatal(err)
	}
	s.begin(id, key, r)
	kept := s.put(Response{ID: id, Status: statusCompleted, Output: []any{&Message{
		ID: "msg_" + id, Type: "message", Role: "assistant", Content: []Part{newText(text)}}}})
	s.end(id)
	return kept
}

// TestStoreLimit: the responses that were not used for the longest time make room, and those that a
// conversation needs are used when it goes on.
func TestStoreLimit(t *testing.T) {
	s := NewStore()
	s.limit = 100 << 10
	text := strings.Repeat("x", 10<<10) // counted twice
	keep(t, s, "a0", "", text)
	for i := 1; i < 4; i++ { // one conversation uses another's space
		keep(t, s, fmt.Sprint("b", i), "", text)
		if !keep(t, s, fmt.Sprint("a", i), fmt.Sprint("a", i-1), "short") {
			t.Fatalf("a%d was not kept", i)
		}
	}
	keep(t, s, "b4", "", text)
	for id, kept := range map[string]bool{"a0": true, "a1": true, "a3": true, "b1": false,
		"b4": true} {
		if _, err := s.get(id); (err == nil) != kept {
			t.Errorf("%s: %v, expected it to be kept: %t", id, err, kept)
		}
		if _, ok := s.item("msg_" + id); ok != kept {
			t.Errorf("the item of %s is there: %t", id, ok)
		}
	}
	items, err := s.conversation("a3")
	if err != nil || len(items) != 8 {
		t.Errorf("the conversation has %d items, %v; expected 8", len(items), err)
	}
	if keep(t, s, "huge", "", strings.Repeat("x", s.limit)) {
		t.Error("a response larger than the store was kept")
	}
	if _, err := s.get("b4"); err != nil || s.bytes > s.limit {
		t.Errorf("after that: %v, %d bytes", err, s.bytes)
	}
}

// TestStoreShares: an API key that stores much loses its own responses, not those of others. Two
// that store much get a half each.
func TestStoreShares(t *testing.T) {
	s := NewStore()
	s.limit = 100 << 10
	text := strings.Repeat("x", 5<<10) // counted twice
	keepFor(t, s, "", "person", "", text)
	keepFor(t, s, "small", "small", "", text)
	held := func(prefix string) (n int) {
		for i := range 50 {
			if _, err := s.get(fmt.Sprint(prefix, i)); err == nil {
				n++
			}
		}
		return n
	}
	for i := range 50 {
		keepFor(t, s, "greedy", fmt.Sprint("g", i), "", text)
	}
	if n := held("g"); n < 5 || n > 7 {
		t.Errorf("the greedy key has %d responses of the 8 that there is room for", n)
	}
	if _, err := s.get("g49"); err != nil {
		t.Error("the latest response of the greedy key is gone")
	}
	for i := range 50 {
		keepFor(t, s, "other", fmt.Sprint("o", i), "", text)
	}
	if g, o := held("g"), held("o"); g < 3 || o < 3 || g+o > 7 {
		t.Errorf("two greedy keys have %d and %d responses", g, o)
	}
	for _, id := range []string{"person", "small"} {
		if _, err := s.get(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if s.bytes > s.limit {
		t.Errorf("%d bytes, the limit is %d", s.bytes, s.limit)
	}
}

// TestStoredSize: an item counts with what its buffer takes, and with its ID.
func TestStoredSize(t *testing.T) {
	id := strings.Repeat("i", 3000)
	one := normalized(json.RawMessage(`{"type":"message","role":"user","id":"` + id +
		`","content":"` + strings.Repeat("x", 40_000) + `"}`))
	if got, most := cap(one.raw), len(one.raw)*5/4; got > most {
		t.Errorf("an item of %d bytes takes %d", len(one.raw), got)
	}
	if got, want := size([]item{one}), itemBytes+len(id)+cap(one.raw); got != want {
		t.Errorf("the size is %d, expected %d", got, want)
	}
}

// TestInputOfIncomplete: the input of a response is all of it or an error.
func TestInputOfIncomplete(t *testing.T) {
	s := NewStore()
	keep(t, s, "a", "", "text")
	keep(t, s, "b", "a", "text")
	keep(t, s, "c", "b", "text")
	if items, err := s.inputOf("c"); err != nil || len(items) != 5 {
		t.Errorf("%d items, %v", len(items), err)
	}
	if err := s.delete("a"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"b", "c"} {
		if items, err := s.inputOf(id); err == nil || problem.From(err).Code != problem.NotFound ||
			!strings.Contains(err.Error(), "is no longer complete") {
			t.Errorf("%s: %d items, %v", id, len(items), err)
		}
	}
}

// TestStoreEnds: nothing is left of requests that have failed, of deleted responses, or after
// Forget.
func TestStoreEnds(t *testing.T) {
	empty := func(s *Store, what string) {
		t.Helper()
		if s.bytes != 0 || len(s.entries)+len(s.items)+len(s.owners) != 0 {
			t.Errorf("%s: the store has %d bytes, %d responses, %d items, %d owners", what,
				s.bytes, len(s.entries), len(s.items), len(s.owners))
		}
	}
	s := NewStore()
	s.begin("a", "", parsed(t, withParams("")))
	s.put(Response{ID: "a", Status: statusInProgress})
	s.end("a")
	empty(s, "a request that has failed")
	keep(t, s, "b", "", "text")
	if err := s.delete("b"); err != nil {
		t.Error(err)
	}
	empty(s, "a deleted response")
	keep(t, s, "c", "", "text")
	s.begin("d", "", parsed(t, withParams("")))
	s.Forget()
	if s.put(Response{ID: "d", Status: statusCompleted}) {
		t.Error("a response whose request was forgotten is kept")
	}
	s.end("d")
	empty(s, "after Forget")
	cancelled := false
	s.begin("e", "", parsed(t, withParams("")))
	s.put(Response{ID: "e", Status: statusInProgress})
	s.cancellable("e", func() { cancelled = true })
	if err := s.delete("e"); err != nil || !cancelled {
		t.Errorf("deleted while it is generated: %v, cancelled: %t", err, cancelled)
	}
	s.end("e")
	empty(s, "deleted while it was generated")
	var none *Store // for a parser without one
	none.begin("f", "", parsed(t, withParams("")))
	none.cancellable("f", nil)
	none.end("f")
	if none.put(Response{ID: "f"}) {
		t.Error("no store keeps something")
	}
}

// TestNormalized: items are listed with a type, an ID and parts.
func TestNormalized(t *testing.T) {
	for raw, want := range map[string]string{
		`{"role":"user","content":"h\u0069"}`: `{"type":"message","id":"msg_","role":"user",` +
			`"content":[{"type":"input_text","text":"h\u0069"}]}`,
		` {"type":"message","id":"m","role":"assistant", "content":"a"}`: `{"type":"message",` +
			`"id":"m","role":"assistant","content":[{"type":"output_text","text":"a"}]}`,
		`{"type":"function_call_output","call_id":"1","output":[]}`: `{"type":` +
			`"function_call_output","id":"fco_","call_id":"1","output":[]}`,
		`{"type":"web_search_call","id":null}`: `{"type":"web_search_call","id":"item_"}`,
	} {
		one := normalized(json.RawMessage(raw))
		got := string(one.raw)
		if id := itemID(one.raw); id != one.id || !json.Valid(one.raw) {
			t.Errorf("%s: the ID is %s in %s", raw, one.id, got)
		} else if at := strings.IndexByte(id, '_'); at >= 0 {
			got = strings.Replace(got, id, id[:at+1], 1)
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", raw, got, want)
		}
	}
}

// TestPastLimit: a request cannot take more from the store than a body may have, neither by a
// conversation nor by references.
func TestPastLimit(t *testing.T) {
	s := NewStore()
	text := strings.Repeat("x", maxPastBytes/3)
	previous := ""
	for _, id := range []string{"a0", "a1", "a2"} {
		keep(t, s, id, previous, text)
		previous = id
	}
	_, err := Parse([]byte(withParams(`"previous_response_id":"a2"`)), s)
	checkError(t, err, "previous_response_id", "has more than 8 MiB")
	reference := `{"type":"item_reference","id":"msg_a0"}`
	if _, err := Parse([]byte(withInput(reference+","+reference)), s); err != nil {
		t.Error(err)
	}
	_, err = Parse([]byte(withInput(strings.Repeat(reference+",", 2)+reference)), s)
	checkError(t, err, "input[2]", "more than 8 MiB")
}

// TestPages: a page of a list ends when it is large, whatever its limit.
func TestPages(t *testing.T) {
	d := New()
	previous := ""
	for _, id := range []string{"a", "b", "c"} {
		keep(t, d.store, id, previous, strings.Repeat("x", maxPageBytes*2/3))
		previous = id
	}
	r := httptest.NewRequest("GET", "/v1/responses/c/input_items?limit=100", nil)
	r.SetPathValue("id", "c")
	got, err := d.inputItems(r, nil)
	list, _ := got.(ItemList)
	if err != nil || len(list.Data) == 0 || !list.HasMore {
		t.Fatalf("got %d items, more %v, %v", len(list.Data), list.HasMore, err)
	}
	bytes := 0
	for _, one := range list.Data {
		bytes += len(one)
	}
	if bytes > maxPageBytes {
		t.Errorf("a page has %d bytes, expected at most %d", bytes, maxPageBytes)
	}
}

// TestItemIDs: a client cannot give another item the ID of one that is stored, and items are not
// found by IDs that clients have chosen.
func TestItemIDs(t *testing.T) {
	s := NewStore()
	keep(t, s, "a", "", "theirs")
	r, err := Parse([]byte(withInput(`{"role":"user","id":"msg_a","content":"mine"}`)), s)
	if err != nil {
		t.Fatal(err)
	}
	s.begin("b", "", r)
	s.put(Response{ID: "b", Status: statusCompleted})
	if item, ok := s.item("msg_a"); !ok || !strings.Contains(string(item), "theirs") {
		t.Errorf("the item is %s", item)
	}
	if r, err = Parse([]byte(withInput(`{"role":"user","id":"msg_1","content":"mine"}`)), s); err !=
		nil {
		t.Fatal(err)
	}
	s.begin("c", "", r)
	s.put(Response{ID: "c", Status: statusCompleted})
	if item, ok := s.item("msg_1"); ok {
		t.Errorf("another client finds %s by an ID that anybody may choose", item)
	}
}

// TestStoredItems: what a response has stored is the same conversation when it is read again.
func TestStoredItems(t *testing.T) {
	s := NewStore()
	r, err := Parse([]byte(`{"instructions":"Be brief.","input":[{"role":"user","content":"hi"},`+
		`{"role":"assistant","content":[{"type":"refusal","refusal":"No."}]},`+
		`{"type":"custom_tool_call","call_id":"1","name":"p","input":"a"},`+
		`{"type":"custom_tool_call_output","call_id":"1","output":"ok"}]}`), s)
	if err != nil {
		t.Fatal(err)
	}
	s.begin("a", "", r)
	s.put(Response{ID: "a", Status: statusIncomplete})
	again, err := Parse([]byte(`{"previous_response_id":"a","instructions":"Be brief."}`), s)
	if err != nil || !reflect.DeepEqual(again.Messages, r.Messages) || again.Previous != "a" {
		t.Errorf("got %+v, %v\nwant %+v", again, err, r.Messages)
	}
}
