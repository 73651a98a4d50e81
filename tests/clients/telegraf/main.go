// Telegraf's output for OpenTSDB, as Telegraf's agent uses it: `telegraf HOST PORT SECONDS`. HOST begins with tcp:// or
// http://.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/metric"
	"github.com/influxdata/telegraf/plugins/outputs/opentsdb"
)

func main() {
	port, err := strconv.Atoi(os.Args[2])
	check(err)
	now, err := strconv.ParseInt(os.Args[3], 10, 64)
	check(err)
	output := &opentsdb.OpenTSDB{
		Host: os.Args[1], Port: port, Prefix: "tg.", HTTPBatchSize: 2, HTTPPath: "/api/put", Separator: "_",
	}
	check(output.Connect())
	var metrics []telegraf.Metric
	for i := int64(0); i < 3; i++ {
		tags := map[string]string{"host": "web 1", "cpu": "cpu" + strconv.FormatInt(i, 10), "empty": ""}
		fields := map[string]interface{}{"usage": 12.25 + float64(i), "count": i * 1000000007}
		metrics = append(metrics, metric.New("cpu", tags, fields, time.Unix(now-i, 0)))
	}
	check(output.Write(metrics))
	check(output.Close())
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
