// Command serve serves the page that make demo has written, to this machine only.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
)

func main() {
	address := flag.String("address", "127.0.0.1:8080", "where to listen")
	site := flag.String("site", "site", "the folder of the page")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("open http://%s/\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.FileServer(http.Dir(*site))))
}
