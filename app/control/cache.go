package control

// What is kept of conversations, over HTTP: the documents of app/cache, word for word.

import (
	"net/http"

	"headroom/app/cache"
)

// PinRequest is the body of /api/cache/{key}/pin.
type PinRequest struct {
	Pinned bool `json:"pinned"`
}

func (a *API) cacheRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/cache", func(w http.ResponseWriter, r *http.Request) {
		list, err := a.host.Conversations()
		answer(w, list, err)
	})
	mux.HandleFunc("DELETE /api/cache", func(w http.ResponseWriter, r *http.Request) {
		removed, err := a.host.ClearCache(r.URL.Query().Get("model"))
		answer(w, removed, err)
	})
	mux.HandleFunc("GET /api/cache/{key}", func(w http.ResponseWriter, r *http.Request) {
		detail, err := a.host.Conversation(r.PathValue("key"))
		answer(w, detail, err)
	})
	mux.HandleFunc("DELETE /api/cache/{key}", func(w http.ResponseWriter, r *http.Request) {
		removed, err := a.host.RemoveConversation(r.PathValue("key"))
		answer(w, removed, err)
	})
	mux.HandleFunc("POST /api/cache/{key}/pin", func(w http.ResponseWriter, r *http.Request) {
		q := PinRequest{Pinned: true}
		if err := readBody(w, r, &q, `{"pinned": true}`); err != nil {
			refuse(w, err)
			return
		}
		if err := a.host.PinConversation(r.PathValue("key"), q.Pinned); err != nil {
			refuse(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
}

// answer writes the document, or why there is none.
func answer[T cache.List | cache.Detail | cache.Removed](w http.ResponseWriter, document T, err error) {
	if err != nil {
		refuse(w, err)
		return
	}
	write(w, http.StatusOK, document)
}
