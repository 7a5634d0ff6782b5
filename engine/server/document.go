package server

// Answers that are one document. A client may read a long one slowly, so its memory counts until it
// is written.

import (
	"context"
	"net/http"
	"sync"
)

const (
	// answerBudget is the memory of all documents over freeAnswer, in bytes. A longer one takes all
	// of it.
	answerBudget = 128 << 20
	freeAnswer   = 64 << 10
)

var answers = &budget{free: answerBudget}

// document is an encoded answer. Its memory counts until done is called.
type document struct {
	json []byte
	done func()
}

// newDocument encodes v, and waits until there is memory to keep it. The error is a Problem, or the
// context's.
func newDocument(ctx context.Context, v any) (*document, error) {
	data := append(encode(v), '\n')
	cost := min(int64(len(data)), answerBudget)
	if cost <= freeAnswer {
		return &document{data, func() {}}, nil
	}
	if _, err := answers.take(ctx, cost, budgetWait); err != nil {
		return nil, err
	}
	return &document{data, sync.OnceFunc(func() { answers.give(cost) })}, nil
}

// write sends the document, and returns its memory.
func (d *document) write(w http.ResponseWriter) {
	defer d.done()
	writeData(w, http.StatusOK, d.json)
}
