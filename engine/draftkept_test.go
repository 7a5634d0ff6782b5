package engine_test

// What a draft model keeps of a request that has ended: the next turn of the conversation reads
// only what is new, and answers as before.

import (
	"fmt"
	"slices"
	"testing"

	"headroom/engine"
)

// keptModels are draft models with pages alone, with recurrent states, and with rings.
var keptModels = []struct {
	name      string
	recurrent bool
}{{"qwen3", false}, {"qwen3_5_text", true}, {"gemma3_text", true}}

const keptPrompt = 300

// keptTurn asks r of both engines, whose answers are the same. It returns the answer, and how many
// rows the draft model computed.
func keptTurn(t *testing.T, plain, ahead *engine.Engine, r engine.Request) ([]int32, int) {
	t.Helper()
	r.MaxTokens, r.IgnoreEOS = 20, true
	want, _, _ := collect(t, submit(t, plain, r))
	before := ahead.DraftModelRows()
	got, _, done := collect(t, submit(t, ahead, r))
	if !slices.Equal(got, want) {
		t.Errorf("got %d, expected %d", got, want)
	}
	if u := done.Usage; u.DraftModelAccepted != u.DraftModelTokens || u.DraftModelTokens == 0 {
		t.Errorf("%d of %d drafts of a copy were right", u.DraftModelAccepted, u.DraftModelTokens)
	}
	if err := ahead.CheckMemory(); err != nil {
		t.Error(err)
	}
	return got, ahead.DraftModelRows() - before
}

// TestDraftModelKept: a second turn reads the new tokens only. So does one after another
// conversation, and a fork of a conversation where that is possible. A request of which nothing may
// be kept reads all, and so does one whose conversation was forgotten.
func TestDraftModelKept(t *testing.T) {
	for _, m := range keptModels {
		t.Run(m.name, func(t *testing.T) {
			src := tinySource(t, m.name)
			o := engine.Options{MaxSequences: 4, ContextTokens: 1024}
			plain, ahead := openModel(t, src, o), withDraftModel(t, src, src, o)
			ahead.DraftDepth(4)
			const answering = 80 // an answer's rows and the new tokens, at most
			turn := func(what string, r engine.Request, all bool) []int32 {
				t.Helper()
				answer, rows := keptTurn(t, plain, ahead, r)
				if all != (rows >= keptPrompt) || !all && rows > answering {
					t.Errorf("%s: the draft model computed %d rows for %d tokens, all: %t", what,
						rows, len(r.Prompt), all)
				}
				return slices.Concat(r.Prompt, answer)
			}
			first := turn("new", engine.Request{Prompt: someIDs(1, keptPrompt)}, true)
			other := turn("another", engine.Request{Prompt: someIDs(2, keptPrompt)}, true)
			second := turn("second turn", engine.Request{
				Prompt: slices.Concat(first, someIDs(3, 10))}, false)
			turn("its second turn", engine.Request{
				Prompt: slices.Concat(other, someIDs(4, 10))}, false)
			turn("a fork", engine.Request{
				Prompt: slices.Concat(second[:keptPrompt], someIDs(5, 10))}, m.recurrent)
			ahead.Forget(other)
			turn("forgotten", engine.Request{
				Prompt: slices.Concat(other, someIDs(6, 10))}, true)
			for i, r := range []engine.Request{{Private: true}, {NoCache: true}} {
				r.Prompt = someIDs(10+i, keptPrompt)
				r.Prompt = slices.Concat(turn("not to be kept", r, true), someIDs(3, 10))
				turn("after that", r, true)
			}
			ahead.ForgetAll()
			turn("all forgotten", engine.Request{
				Prompt: slices.Concat(second, someIDs(7, 10))}, true)
		})
	}
}

// TestDraftModelKeptBounded: many conversations take no more memory than there is. Each has its
// answer, and the latest are kept.
func TestDraftModelKeptBounded(t *testing.T) {
	for _, m := range keptModels {
		t.Run(m.name, func(t *testing.T) {
			src := tinySource(t, m.name)
			o := engine.Options{MaxSequences: 2, ContextTokens: 512}
			plain, ahead := openModel(t, src, o), withDraftModel(t, src, src, o)
			ahead.DraftDepth(4)
			var talk []int32
			for i := range 20 {
				prompt := someIDs(i, keptPrompt)
				answer, rows := keptTurn(t, plain, ahead, engine.Request{Prompt: prompt})
				if rows < keptPrompt {
					t.Errorf("conversation %d: %d rows for a new prompt", i, rows)
				}
				talk = slices.Concat(prompt, answer, someIDs(i+1, 5))
			}
			if _, rows := keptTurn(t, plain, ahead, engine.Request{Prompt: talk}); rows > 80 {
				t.Errorf("the latest conversation was read again: %d rows", rows)
			}
			stream := submit(t, ahead, engine.Request{Prompt: someIDs(50, keptPrompt),
				IgnoreEOS: true})
			hear(t, stream, 10)
			idle(t, ahead)
			if err := ahead.CheckMemory(); err != nil {
				t.Error(fmt.Errorf("after a cancelled request: %w", err))
			}
		})
	}
}
