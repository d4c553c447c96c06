// Package doctor reads a deployment of counters, and says what is wrong with it and how to mend
// that.
//
// [Reader] reads through the platform's own APIs into a [Deployment], which is plain data: what an
// account may not read is listed there, and the rest is read. [Check] judges a Deployment, and
// knows no client. What can be found is named in one place, the catalogue, with its severity and
// what it means.
//
// What is a plain difference from the list of resources that deploy goes by is found by that list, and mended by its
// commands: differences.go has the kinds. The rest is what the list has not: how a function does, what waits, what
// documents hold, and what is right in other ways than deploy's, such as a wider role.
package doctor
