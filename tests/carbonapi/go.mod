module plumbago/tests/carbonapi

go 1.21

require github.com/go-graphite/carbonapi v0.17.0

require (
	github.com/JaderDias/movingmedian v0.0.0-20220813210630-d8c6b6de8835 // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/ansel1/merry v1.8.0 // indirect
	github.com/ansel1/merry/v2 v2.2.1 // indirect
	github.com/barkimedes/go-deepcopy v0.0.0-20220514131651-17c30cfc62df // indirect
	github.com/bradfitz/gomemcache v0.0.0-20230905024940-24af94b03874 // indirect
	github.com/cactus/go-statsd-client/v5 v5.1.0 // indirect
	github.com/circonus-labs/gosnowth v1.14.0 // indirect
	github.com/dgryski/go-expirecache v0.0.0-20170314133854-743ef98b2adb // indirect
	github.com/dgryski/go-onlinestats v0.0.0-20170612111826-1c7d19468768 // indirect
	github.com/dgryski/httputil v0.0.0-20160116060654-189c2918cd08 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/evmar/gocairo v0.0.0-20160222165215-ddd30f837497 // indirect
	github.com/felixge/httpsnoop v1.0.4 // indirect
	github.com/fsnotify/fsnotify v1.7.0 // indirect
	github.com/go-graphite/protocol v1.0.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/gomodule/redigo v1.9.2 // indirect
	github.com/google/flatbuffers v24.3.25+incompatible // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/gorilla/handlers v1.5.2 // indirect
	github.com/hashicorp/hcl v1.0.0 // indirect
	github.com/lib/pq v1.10.9 // indirect
	github.com/lomik/og-rek v0.0.0-20170411191824-628eefeb8d80 // indirect
	github.com/lomik/zapwriter v0.0.0-20210624082824-c1161d1eb463 // indirect
	github.com/magiconair/properties v1.8.7 // indirect
	github.com/maruel/natural v1.1.1 // indirect
	github.com/mitchellh/mapstructure v1.5.0 // indirect
	github.com/mjibson/go-dsp v0.0.0-20180508042940-11479a337f12 // indirect
	github.com/msaf1980/go-metrics v0.0.14 // indirect
	github.com/msaf1980/go-stringutils v0.1.6 // indirect
	github.com/natefinch/atomic v1.0.1 // indirect
	github.com/openhistogram/circonusllhist v0.4.0 // indirect
	github.com/pelletier/go-toml/v2 v2.2.1 // indirect
	github.com/philhofer/fwd v1.1.2 // indirect
	github.com/rs/dnscache v0.0.0-20230804202142-fc85eb664529 // indirect
	github.com/sagikazarmark/locafero v0.4.0 // indirect
	github.com/sagikazarmark/slog-shim v0.1.0 // indirect
	github.com/satori/go.uuid v1.2.0 // indirect
	github.com/sourcegraph/conc v0.3.0 // indirect
	github.com/spf13/afero v1.11.0 // indirect
	github.com/spf13/cast v1.6.0 // indirect
	github.com/spf13/pflag v1.0.5 // indirect
	github.com/spf13/viper v1.18.2 // indirect
	github.com/subosito/gotenv v1.6.0 // indirect
	github.com/tebeka/strftime v0.1.5 // indirect
	github.com/tinylib/msgp v1.1.9 // indirect
	github.com/valyala/fastjson v1.6.4 // indirect
	github.com/wangjohn/quickselect v0.0.0-20161129230411-ed8402a42d5f // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/exp v0.0.0-20240416160154-fe59bbe5cc7f // indirect
	golang.org/x/sync v0.7.0 // indirect
	golang.org/x/sys v0.19.0 // indirect
	golang.org/x/text v0.14.0 // indirect
	gonum.org/v1/gonum v0.15.0 // indirect
	google.golang.org/protobuf v1.33.0 // indirect
	gopkg.in/ini.v1 v1.67.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
