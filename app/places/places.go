// Package places has the places of the window that menu rows and notifications open. They are
// fragments of its address; see router.svelte.ts.
package places

import "net/url"

// The pages.
const (
	NewChat  = "page=chat&chat=new"
	Models   = "page=models"
	Memory   = "page=memory"
	Adapt    = "page=adapt"
	Settings = "page=settings"
)

// Chat returns the place of a conversation.
func Chat(id string) string { return "page=chat&chat=" + url.QueryEscape(id) }
