package control

// The Chat page's conversations over HTTP: the documents of app/chats, word for word.

import (
	"net/http"

	"headroom/app/chats"
)

// ChatList is the document of /api/chats.
type ChatList struct {
	Chats []chats.Summary `json:"chats"` // those changed last first
}

// ChatsEvent is the data of a "chats" event.
type ChatsEvent struct {
	Version int `json:"version"` // another number: the list is another, or a conversation in it
}

const chatExample = `{"revision": 0, "title": "Hello", "updatedAt": 0, "from": 0, "messages": [{"id": "1", "role": "user", "content": "Hello"}]}`

func (a *API) chatRoutes() []Route {
	return []Route{
		route("GET /api/chats", "The Chat page's conversations, without what was said in them.", "",
			func(r *http.Request, _ nothing) (ChatList, error) {
				list, err := a.chats.Search(r.URL.Query().Get("search"))
				return ChatList{list}, err
			}).
			with(Query{"search", "Words that must all stand in title or messages, in any case."}),
		route("GET /api/chats/{id}", "One conversation; of a damaged one, what can be read.", "",
			func(r *http.Request, _ nothing) (chats.Chat,
				error) {
				return a.chats.Read(r.PathValue("id"))
			}),
		route("PUT /api/chats/{id}",
			"Replaces a conversation's messages from one on, or makes one. Refused with 409 if it "+
				"is not the revision that is named.", chatExample,
			func(r *http.Request, c chats.Change) (chats.Summary, error) {
				return a.chats.Write(r.PathValue("id"), c)
			}).upTo(chats.MaxBodyBytes),
		route("DELETE /api/chats/{id}", "Deletes a conversation's file.", "",
			func(r *http.Request, _ nothing) (nothing, error) {
				return nothing{}, a.chats.Remove(r.PathValue("id"))
			}),
	}
}

func (a *API) chatsSubscribe() (written <-chan struct{}, done func()) {
	if a.chats == nil {
		return nil, func() {}
	}
	return a.chats.Subscribe()
}

func (a *API) chatsEvent() ChatsEvent {
	if a.chats == nil {
		return ChatsEvent{}
	}
	return ChatsEvent{a.chats.Version()}
}
