// Package webchannel is the server side of WebChannel, the protocol by which browsers hold streams
// of messages in both directions over plain HTTP requests: what Firestore's web SDK uses where
// other clients use gRPC streams.
//
// A client opens a session with a POST and gets its id. From then on it sends messages by further
// POSTs, the forward channel, and gets messages as the response of a GET that is kept open for up
// to a minute, the back channel. Messages are numbered in both directions: each request says which
// ones the client has, so that whatever a lost connection has swallowed is sent again, and nothing
// is taken twice.
//
// A session ends when the client says so, or when it hasn't been heard of for two minutes. What a
// client doesn't acknowledge is kept for it, up to maxUnacked bytes; then Send waits. A client that
// doesn't read therefore holds up its own stream, and costs no more than that.
package webchannel
