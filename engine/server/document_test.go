package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headroom/engine/problem"
)

// TestUnreadDocuments: long documents wait while others have not been read, and short ones do not.
func TestUnreadDocuments(t *testing.T) {
	long, err := newDocument(t.Context(), strings.Repeat("a", answerBudget))
	if err != nil {
		t.Fatal(err)
	}
	short, err := newDocument(t.Context(), strings.Repeat("a", freeAnswer/2))
	if err != nil {
		t.Fatalf("a short document: %v", err)
	}
	short.done()
	next := make(chan error, 1)
	go func() {
		d, err := newDocument(t.Context(), strings.Repeat("a", freeAnswer))
		if err == nil {
			d.done()
		}
		next <- err
	}()
	waitForClaims(answers, 1)
	long.write(httptest.NewRecorder())
	if err := <-next; err != nil {
		t.Errorf("after the long one was read: %v", err)
	}
	if answers.free != answerBudget {
		t.Errorf("%d bytes are free, expected %d", answers.free, answerBudget)
	}
	if _, err := answers.take(t.Context(), answerBudget+1, time.Nanosecond); !isOverloaded(err) {
		t.Errorf("without memory: %v", err)
	}
}

func isOverloaded(err error) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Code == problem.Overloaded
}

// slowWriter is a client that reads 64 KiB in 400 ms.
type slowWriter struct {
	httptest.ResponseRecorder
	deadlines []time.Time
}

func (w *slowWriter) Write(data []byte) (int, error) {
	time.Sleep(400 * time.Millisecond)
	return len(data), nil
}

func (w *slowWriter) SetWriteDeadline(at time.Time) error {
	w.deadlines = append(w.deadlines, at)
	return nil
}

// TestDrippingReader: the deadlines of the parts of an answer allow a least rate, and do not begin
// anew with each part.
func TestDrippingReader(t *testing.T) {
	slow := &slowWriter{}
	w := &pacedWriter{ResponseWriter: slow, control: http.NewResponseController(slow),
		limits: &Limits{Write: time.Hour}}
	if _, err := w.Write(make([]byte, 3*64<<10)); err != nil {
		t.Fatal(err)
	}
	if len(slow.deadlines) != 3 {
		t.Fatalf("%d deadlines, expected one for each part", len(slow.deadlines))
	}
	most := 2 * 64 << 10 * time.Second / minAnswerRate
	if later := slow.deadlines[2].Sub(slow.deadlines[0]); later > most {
		t.Errorf("the last part has %v more than the first, expected %v", later, most)
	}
}
