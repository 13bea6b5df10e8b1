package deadletter

// HeaderReplays is the header that a handler finds on a message that comes from the dead letters, beside those of the message itself: how
// often it has been replayed, from 1.
const HeaderReplays = hdrReplays
