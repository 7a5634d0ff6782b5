package batches

// The objects of the API, as OpenAI documents them, and as the index keeps them.

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Purposes of files.
const (
	purposeInput  = "batch"
	purposeOutput = "batch_output"
)

// File is a file. https://platform.openai.com/docs/api-reference/files/object
type File struct {
	ID        string `json:"id"`
	Object    string `json:"object"` // "file"
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt int64  `json:"expires_at"`
	Filename  string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"` // "processed"
}

// Status is that of a batch.
type Status string

// The statuses of a batch.
const (
	validating Status = "validating"
	failed     Status = "failed"
	inProgress Status = "in_progress"
	finalizing Status = "finalizing"
	completed  Status = "completed"
	expired    Status = "expired"
	cancelling Status = "cancelling"
	cancelled  Status = "cancelled"
)

// ended reports whether a batch with this status changes no more.
func (s Status) ended() bool {
	return slices.Contains([]Status{failed, completed, expired, cancelled}, s)
}

// Batch is a batch. https://platform.openai.com/docs/api-reference/batch/object
type Batch struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"` // "batch"
	Endpoint         string            `json:"endpoint"`
	Errors           *Errors           `json:"errors"`
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           Status            `json:"status"`
	OutputFileID     *string           `json:"output_file_id"`
	ErrorFileID      *string           `json:"error_file_id"`
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     *int64            `json:"in_progress_at"`
	ExpiresAt        int64             `json:"expires_at"`
	FinalizingAt     *int64            `json:"finalizing_at"`
	CompletedAt      *int64            `json:"completed_at"`
	FailedAt         *int64            `json:"failed_at"`
	ExpiredAt        *int64            `json:"expired_at"`
	CancellingAt     *int64            `json:"cancelling_at"`
	CancelledAt      *int64            `json:"cancelled_at"`
	RequestCounts    Counts            `json:"request_counts"`
	Metadata         map[string]string `json:"metadata"`
}

// Counts are numbers of requests.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// Errors say why a batch has failed.
type Errors struct {
	Object string      `json:"object"` // "list"
	Data   []LineError `json:"data"`
}

// LineError is an error of one line of the input; Line is nil if it is about all.
type LineError struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Line    *int    `json:"line"`
}

// List is a page of a list.
type List struct {
	Object  string  `json:"object"` // "list"
	Data    []any   `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// Deleted says that a file was deleted.
type Deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "file"
	Deleted bool   `json:"deleted"`
}

// storedFile is a file of the index.
type storedFile struct {
	File
	Owner string `json:"owner"` // ID of the API key; "": none with a name
	// Batch is the batch that writes the file. Until it has ended, no client sees the file.
	Batch string `json:"batch,omitempty"`
}

// storedBatch is a batch of the index.
type storedBatch struct {
	Batch
	Owner  string `json:"owner"`
	Output string `json:"output"` // ID of the file for answers
	Faults string `json:"faults"` // ID of the file for errors
	// Validated says that all lines of the input are requests.
	Validated bool `json:"validated,omitempty"`
}

// index is all files and batches, the oldest first.
type index struct {
	Files   []*storedFile  `json:"files"`
	Batches []*storedBatch `json:"batches"`
}

func (x *index) file(id string) *storedFile {
	i := slices.IndexFunc(x.Files, func(f *storedFile) bool { return f.ID == id })
	if i < 0 {
		return nil
	}
	return x.Files[i]
}

// copied returns a batch that does not change with the stored one.
func (b *storedBatch) copied() Batch {
	data, _ := json.Marshal(b.Batch)
	var c Batch
	_ = json.Unmarshal(data, &c)
	return c
}

// set sets the status of a batch, and the time of it.
func (b *storedBatch) set(s Status, now time.Time) {
	b.Status = s
	at := map[Status]**int64{inProgress: &b.InProgressAt, finalizing: &b.FinalizingAt,
		completed: &b.CompletedAt, failed: &b.FailedAt, expired: &b.ExpiredAt,
		cancelling: &b.CancellingAt, cancelled: &b.CancelledAt}[s]
	if at != nil && *at == nil {
		*at = new(now.Unix())
	}
}

// paging says which part of a list a client asks for.
type paging struct {
	limit int
	after string
	asc   bool
}

// readPaging reads the parameters of a list.
func readPaging(query func(string) string, usual, most int) (p paging, err error) {
	p.limit = usual
	if text := query("limit"); text != "" {
		p.limit, err = strconv.Atoi(text)
		if err != nil || p.limit < 1 || p.limit > most {
			return p, badParam("limit", "must be between 1 and %d, got %.80q", most, text)
		}
	}
	switch order := query("order"); order {
	case "", "desc":
	case "asc":
		p.asc = true
	default:
		return p, badParam("order", `must be "asc" or "desc", got %.80q`, order)
	}
	p.after = query("after")
	return p, nil
}

// page returns a page of objects, the oldest of which is the first.
func page[T any](p paging, all []T, idOf func(T) string) (List, error) {
	if !p.asc {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	if p.after != "" {
		i := slices.IndexFunc(all, func(one T) bool { return idOf(one) == p.after })
		if i < 0 {
			return List{}, badParam("after", "there is no %.80q in the list", p.after)
		}
		all = all[i+1:]
	}
	list := List{Object: "list", Data: []any{}, HasMore: len(all) > p.limit}
	for _, one := range all[:min(p.limit, len(all))] {
		list.Data = append(list.Data, one)
		list.LastID = new(idOf(one))
		list.FirstID = cmp.Or(list.FirstID, list.LastID)
	}
	return list, nil
}
