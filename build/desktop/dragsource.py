# dragsource: a small window from which a test drags files onto another. Its arguments are their paths; it says "ready" when it is there.
#
#   /usr/bin/python3 build/desktop/dragsource.py PATH...
import sys

import gi

gi.require_version("Gdk", "3.0")
gi.require_version("Gtk", "3.0")
from gi.repository import Gdk, GLib, Gtk  # noqa: E402 (the versions come first)

addresses = [GLib.filename_to_uri(path, None) for path in sys.argv[1:]]
window = Gtk.Window(title="dragsource")
window.set_default_size(150, 100)
window.set_keep_above(True)
source = Gtk.EventBox()
source.add(Gtk.Label(label="drag from here"))
source.drag_source_set(Gdk.ModifierType.BUTTON1_MASK, [Gtk.TargetEntry.new("text/uri-list", 0, 0)], Gdk.DragAction.COPY)
source.connect("drag-data-get", lambda _widget, _context, data, _info, _time: data.set_uris(addresses))
window.add(source)
window.connect("destroy", Gtk.main_quit)
window.connect("map-event", lambda *_: print("ready", flush=True))
window.show_all()
Gtk.main()
