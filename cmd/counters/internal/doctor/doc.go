// Package doctor reads a deployment of counters, and says what is wrong with it and how to mend
// that.
//
// [Reader] reads through the platform's own APIs into a [Deployment], which is plain data: what an
// account may not read is listed there, and the rest is read. [Check] judges a Deployment, and
// knows no client. What can be found is named in one place, the catalogue, with its severity and
// what it means.
package doctor
