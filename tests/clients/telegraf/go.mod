module plumbago/telegraf

go 1.25.5

require github.com/influxdata/telegraf v1.37.2
