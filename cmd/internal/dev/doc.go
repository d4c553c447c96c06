// Package dev runs the whole system on one machine: a Firestore in memory (or the official
// emulator, where FIRESTORE_EMULATOR_HOST names one), the functions, each an OS process of its own
// that runs the functions framework as in production, the delivery of events to them, and a gateway
// in front of them.
//
// The function processes are the program itself, started once more: whoever calls [Start] calls
// [ServeIfChild] first thing in main, or in TestMain.
package dev
