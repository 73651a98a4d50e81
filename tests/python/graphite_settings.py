"""Settings of the graphite-web of the oracle: no cache, no peers, a local tag database."""
import os

STORAGE_DIR = os.environ["GRAPHITE_STORAGE_DIR"]
CONF_DIR = STORAGE_DIR
LOG_DIR = STORAGE_DIR
WHISPER_DIR = os.path.join(STORAGE_DIR, "whisper")
STANDARD_DIRS = [WHISPER_DIR]
INDEX_FILE = os.path.join(STORAGE_DIR, "index")
SECRET_KEY = "not a secret: this answers only to the tests"
ALLOWED_HOSTS = ["*"]
TIME_ZONE = "UTC"
USE_TZ = True
CARBONLINK_HOSTS = []
CLUSTER_SERVERS = []
MEMCACHE_HOSTS = []
DEFAULT_CACHE_DURATION = 0
FIND_CACHE_DURATION = 0
FIND_TOLERANCE = 0
TAGDB = "graphite.tags.localdatabase.LocalDatabaseTagDB"
TAGDB_CACHE_DURATION = 0
LOG_RENDERING_PERFORMANCE = False
LOG_CACHE_PERFORMANCE = False
LOG_FILE_INFO = "-"
LOG_FILE_EXCEPTION = "-"
LOG_FILE_CACHE = "-"
LOG_FILE_RENDERING = "-"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
