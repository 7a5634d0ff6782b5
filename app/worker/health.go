package worker

// Whether the process answers. The parent asks for the engine's heartbeat, and the goroutine that
// reads the parent's messages answers at once, whatever the engine does. At most one question is
// open at a time: the pipe to a stopped process would fill up otherwise.

import (
	"fmt"
	"time"

	"headroom/engine"
	"headroom/engine/problem"
)

// noticeableSilence is the silence that Health reports if it may not wait.
const noticeableSilence = time.Second

// health is the open question and its answer. Model.mu guards it.
type health struct {
	asked     time.Time     // when the open question was asked; zero: none is open
	answered  chan struct{} // closed when the open question is answered
	heartbeat *engine.Heartbeat
}

// ask asks for a heartbeat, unless a question is open already. It returns when the open question
// was asked, and a channel that is closed when it is answered. The caller holds mu.
func (m *Model) ask() (asked time.Time, answered <-chan struct{}) {
	if m.health.asked.IsZero() {
		m.health.asked, m.health.answered = time.Now(), make(chan struct{})
		m.send(&toWorker{Heartbeat: &heartbeatRequest{}})
	}
	return m.health.asked, m.health.answered
}

// heartbeat handles the answer. There may be no question, if the worker breaks the protocol.
func (m *Model) heartbeat(h *engine.Heartbeat) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health.heartbeat = h
	if !m.health.asked.IsZero() {
		m.health.asked = time.Time{}
		close(m.health.answered)
	}
}

// Health returns a Problem if the process does not answer within patience, and nil if it answers.
// With no patience it does not wait, and reports a process that has been silent for a second since
// it was first asked. A process that has ended is not silent; see Died.
func (m *Model) Health(patience time.Duration) error {
	m.mu.Lock()
	if m.ended {
		m.mu.Unlock()
		return nil
	}
	asked, answered := m.ask()
	m.mu.Unlock()
	least := noticeableSilence
	if patience > 0 {
		least = patience
		late := time.NewTimer(patience - time.Since(asked))
		defer late.Stop()
		select {
		case <-answered:
			return nil
		case <-m.died:
			return nil
		case <-late.C:
		}
	}
	silence := time.Since(asked)
	select {
	case <-answered:
		return nil
	default:
	}
	if silence < least {
		return nil
	}
	return unresponsive(silence)
}

// unresponsive returns the Problem of a process that has been silent for that long.
func unresponsive(silence time.Duration) error {
	return problem.New(problem.Unresponsive, "The model's process does not answer",
		fmt.Sprintf("it has been silent for %s; what is shown of it is that old",
			silence.Round(100*time.Millisecond)),
		"If it stays silent, it is ended and the model is loaded again.")
}
