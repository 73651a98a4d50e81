"""graphite-web on 127.0.0.1, on the port that is given or on 8888, which the guides take; 0 means any free port. Its storage
is that of GRAPHITE_STORAGE_DIR."""
import os
import sys
import types
from wsgiref.simple_server import make_server

# PNG is never requested. Without this stub the import would need the cairo library.
sys.modules["cairocffi"] = types.ModuleType("cairocffi")
for name in ("FORMAT_ARGB32", "ImageSurface", "Context"):
    setattr(sys.modules["cairocffi"], name, None)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ["GRAPHITE_SETTINGS_MODULE"] = "graphite_settings"
os.environ["DJANGO_SETTINGS_MODULE"] = "graphite.settings"

import django  # noqa: E402
from django.core.management import call_command  # noqa: E402

django.setup()
call_command("migrate", run_syncdb=True, verbosity=0)

from graphite.wsgi import application  # noqa: E402

server = make_server("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else 8888, application)
if len(sys.argv) > 1:
    print(f"listening http 127.0.0.1:{server.server_port}", flush=True)
print("ready", flush=True)
server.serve_forever()
