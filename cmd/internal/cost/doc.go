// Package cost prices what a counter uses: documents read, written and deleted, requests of
// functions, and the time of their instances. It is arithmetic on a dated table of list prices; it
// knows no client and measures nothing.
//
// It is used in two ways. A benchmark hands in what it has counted, a [Usage], and gets a [Bill].
// On paper, a [Load] works out what each way to build a counter would use, and a [Choice] says
// which of them is the cheapest. Both are priced in the two ways in which Cloud Run bills a function
// ([Billing]).
//
// Left out are the free tier, storage, network egress, logging and the transport of events. None of
// them differs much between the designs that are compared, except for what is stored of request
// markers until their TTL.
package cost
