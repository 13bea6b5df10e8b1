// Package browser tests the status page of package admin in a real browser. It is a module of its own, so that a user of the library does not
// download what drives one.
//
// The tests look for chromium, chromium-browser or google-chrome in PATH, and say so and pass where there is none; with ACKFLOOR_NEED_CHROMIUM=1 they
// fail then. ACKFLOOR_SCREENSHOTS names a folder for screenshots; ACKFLOOR_WRITE_DOCS=1 makes the picture in docs/images again.
package browser
