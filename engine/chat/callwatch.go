package chat

// Where calls begin, for formats whose calls do not begin with a token of their own. From there on
// the form of calls applies (engine/structured). All before and after is free.

import "strings"

// CallWatch follows the text of one answer, and says where calls begin. It is not safe for
// concurrent use.
type CallWatch struct {
	splitter splitter
	form     *callForm
	mark     func(string) string

	reader callReader // of the last call that was found
	calls  int        // how many of its calls were found
}

// WatchCalls returns a CallWatch for the answer to a prompt. It is nil if the calls of the format
// begin with a tag, or have no form.
func (t *Template) WatchCalls(prompt string, o CallOptions) *CallWatch {
	form, _ := t.of(true).callForm()
	if form == nil || form.begun == nil {
		return nil
	}
	w := &callWriter{o: o, tags: t.of(true).Tags()}
	return &CallWatch{splitter: t.NewSplitter(prompt, o.Tools).splitter, form: form, mark: w.mark}
}

// Add adds the next text of the answer. If a call has begun in it, begun is the call so far as the
// form of calls writes it, which may differ in white space. The form does not take it if the
// function is not offered.
func (w *CallWatch) Add(text string) (begun string, ok bool) {
	w.splitter.Add(text)
	reader, held := w.reading()
	if reader == nil {
		return "", false
	}
	calls := 0
	if r, ok := reader.(*llama3Reader); ok {
		calls = r.calls
	}
	if reader == w.reader && calls < w.calls {
		return "", false // it has been found
	}
	if begun, ok = w.form.begun(reader, held); !ok {
		return "", false
	}
	w.reader, w.calls = reader, calls+1
	return w.mark(begun), true
}

// reading returns the reader of the call that the text is in, and the text that it has; nil: none.
func (w *CallWatch) reading() (callReader, string) {
	switch s := w.splitter.(type) {
	case *channelSplitter:
		return s.reader, s.held.text
	case *tagSplitter:
		if s.kind == Call {
			return s.reader, s.held.text
		}
	}
	return nil, ""
}

// respelled returns a text that begins like expected but for white space, in the spelling of
// expected.
func respelled(text, expected string) (string, bool) {
	at := 0 // expected[:at] is in text
	for i := range len(text) {
		blank := strings.IndexByte(spaces, text[i]) >= 0
		if at < len(expected) && expected[at] == ' ' && !blank {
			at++ // it is left out
		}
		switch {
		case at == len(expected):
			return expected + strings.TrimLeft(text[i:], spaces), true
		case text[i] == expected[at]:
			at++
		case !blank:
			return "", false
		}
	}
	return expected[:at], true
}
