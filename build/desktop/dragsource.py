# dragsource: a small window from which a test drags files onto another window. The arguments are
# the files' paths. It prints "ready" when the window is on screen.
#
#   /usr/bin/python3 build/desktop/dragsource.py PATH...
import sys

import gi

gi.require_version("Gdk", "3.0")
gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, GLib, Gtk  # noqa: E402 (require_version must come first)

addresses = [GLib.filename_to_uri(path, None) for path in sys.argv[1:]]
window = Gtk.Window(title="dragsource")
window.set_default_size(150, 100)
window.set_keep_above(True)
source = Gtk.EventBox()
source.add(Gtk.Label(label="drag from here"))
source.drag_source_set(
    Gdk.ModifierType.BUTTON1_MASK,
    [Gtk.TargetEntry.new("text/uri-list", 0, 0)],
    Gdk.DragAction.COPY,
)


def set_data(_widget, _context, data, _info, _time):
    data.set_uris(addresses)


source.connect("drag-data-get", set_data)
window.add(source)
window.connect("destroy", Gtk.main_quit)
window.connect("map-event", lambda *_: print("ready", flush=True))
window.show_all()
Gtk.main()
