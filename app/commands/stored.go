package commands

// What Headroom has stored on this computer, and its deletion. Running servers list and delete what
// is theirs, because only they can stop writing. Without a server, the commands do it themselves.

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"headroom/app/control"
	"headroom/app/service"
	"headroom/app/stored"
	"headroom/engine/problem"
)

// Stored is `headroom stored`.
type Stored struct {
	Show   StoredShow   `cmd:"" default:"1" help:"List what is stored, where, and how much."`
	Delete StoredDelete `cmd:"" help:"Delete everything: chats, cache, unfinished jobs and log."`
}

// StoredShow is `headroom stored show`.
type StoredShow struct {
	JSON bool `name:"json" help:"Print JSON, for scripts."`
}

// StoredDelete is `headroom stored delete`.
type StoredDelete struct {
	Yes      bool `help:"Delete without asking. Required."`
	Settings bool `help:"Also reset the settings, except for the API key and the allowed host names."`
	Models   bool `help:"Also move the models in Headroom's folders to the Trash; needs a running server."`
}

var kindNames = map[stored.Kind]string{stored.Chats: "chats", stored.Cache: "cache on SSD",
	stored.Batches: "files and batches",
	stored.Jobs:    "unfinished jobs", stored.Log: "log (in memory)", stored.Settings: "settings",
	stored.Keys: "keys and token", stored.Agents: "coding agents", stored.Models: "models",
	stored.Training: "Python environment for training"}

// Run prints the list.
func (c *StoredShow) Run(ctx context.Context, t *terminal) error {
	list := storedList(ctx)
	if c.JSON {
		return printJSON(t.out, list)
	}
	return printStored(t.out, list)
}

func printStored(out io.Writer, list stored.List) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, one := range list.Items {
		what := count(one.Files, "file")
		if one.Kind == stored.Log {
			what = count(one.Files, "line")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", kindNames[one.Kind], what, formatBytes(one.Bytes),
			printable(strings.Join(one.Paths, ", ")))
	}
	return table.Flush()
}

// storedList asks a running server, or else looks itself.
func storedList(ctx context.Context) (list stored.List) {
	asked := false
	eachServer(func(s runningServer) bool {
		asked = s.ask(ctx, askTimeout, http.MethodGet, "control/stored", &list) == nil
		return !asked
	})
	if !asked {
		list = service.StoredHere(service.OpenSettings())
	}
	return list
}

// deleteByServers has each running server delete what is stored.
func deleteByServers(ctx context.Context, choice stored.Choice) (all stored.Deleted, servers int,
	err error) {
	eachServer(func(s runningServer) bool {
		servers++
		var one stored.Deleted
		err = s.send(ctx, deleteTimeout, http.MethodPost, "control/stored/delete",
			control.DeleteStored{Everything: true, Settings: choice.Settings,
				Models: choice.Models}, &one)
		all.Files, all.Bytes = all.Files+one.Files, all.Bytes+one.Bytes
		all.Left = append(all.Left, one.Left...)
		return err == nil
	})
	return all, servers, err
}

// deleteTimeout bounds how long a server may take: it unloads its model first.
const deleteTimeout = 2 * time.Minute

// Run deletes everything.
func (c *StoredDelete) Run(ctx context.Context, t *terminal) error {
	if !c.Yes {
		if err := printStored(t.err, storedList(ctx)); err != nil {
			return err
		}
		return problem.New(problem.BadRequest, "Nothing was deleted", "--yes is missing",
			"Add --yes to delete these chats, the cache, unfinished jobs and the log for good.")
	}
	choice := stored.Choice{Settings: c.Settings, Models: c.Models}
	all, servers, err := deleteByServers(ctx, choice)
	if err == nil && servers > 1 && len(all.Left) > 0 {
		// A server leaves what another one has open, and the other one may have deleted it since.
		var again stored.Deleted
		again, _, err = deleteByServers(ctx, choice)
		all = stored.Deleted{Files: all.Files + again.Files, Bytes: all.Bytes + again.Bytes,
			Left: again.Left}
	}
	if err != nil {
		return err
	}
	if servers == 0 {
		all = service.DeleteHere(service.OpenSettings(), choice)
		if c.Models {
			all.Left = append(all.Left, "The models are left: they need a running server. Start "+
				"headroom serve, or move them to the Trash by hand.")
		}
	}
	fmt.Fprintf(t.out, "Deleted %s, %s.\n", count(all.Files, "file"), formatBytes(all.Bytes))
	if len(all.Left) == 0 {
		return nil
	}
	return problem.New(problem.Internal, "Not everything could be deleted",
		strings.Join(all.Left, " "), "")
}
