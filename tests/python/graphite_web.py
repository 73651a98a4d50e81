"""graphite-web with its composer on 127.0.0.1, on the port that is given or on 8888, which the guides take; 0 means any free
port. Its storage is that of GRAPHITE_STORAGE_DIR."""
import os
import sys
import types
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server

# PNG is never requested. Without this stub the import would need the cairo library.
sys.modules["cairocffi"] = types.ModuleType("cairocffi")
for name in ("FORMAT_ARGB32", "ImageSurface", "Context"):
    setattr(sys.modules["cairocffi"], name, None)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["GRAPHITE_SETTINGS_MODULE"] = "graphite_settings"
os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"

import graphite_settings  # noqa: E402

# One database for all threads.
graphite_settings.DATABASES["default"]["NAME"] = "file:graphite-web?mode=memory&cache=shared"

import django  # noqa: E402
from django.conf import settings  # noqa: E402
from django.contrib.staticfiles.handlers import StaticFilesHandler  # noqa: E402
from django.core.management import call_command  # noqa: E402

# Where pip puts the files of the browser's side.
settings.STATICFILES_DIRS = (os.path.join(sys.prefix, "webapp", "content"),)
django.setup()
call_command("migrate", run_syncdb=True, verbosity=0)

from graphite.wsgi import application  # noqa: E402


class Server(ThreadingMixIn, WSGIServer):
    """Browsers keep connections open that they do not use yet, so there is a thread for each."""

    daemon_threads = True


port = int(sys.argv[1]) if len(sys.argv) > 1 else 8888
server = make_server("127.0.0.1", port, StaticFilesHandler(application), server_class=Server)
if len(sys.argv) > 1:
    print(f"listening http 127.0.0.1:{server.server_port}", flush=True)
print("ready", flush=True)
server.serve_forever()
