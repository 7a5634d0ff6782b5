// Package notify shows system notifications about events in the background, such as a finished
// download or a failed engine.
//
// Follow (follow.go) watches, news.go decides what to report, and a Service shows it:
// freedesktop.go on Linux, usernotifications_darwin.go and script_darwin.go on a Mac. The caller
// handles clicks.
package notify

// Notice is one notification.
type Notice struct {
	// Key identifies the subject. A notice replaces an earlier one with the same key.
	Key   string
	Title string
	Body  string
	Label string // label of the button
	Hint  string // what a click does, as a sentence, for systems without buttons
	Start string // the model that a click starts, by ID or folder; "" opens the window
	Place string // where a click opens the window; "": as it was left
}

// Service shows notifications. Its methods may be called from any goroutine.
type Service interface {
	// Show shows a notice. A click calls clicked in a new goroutine. Systems that do not report
	// clicks never call it.
	Show(n Notice, clicked func()) error
	// Close removes all notices, because their clicks are no longer handled.
	Close()
}
