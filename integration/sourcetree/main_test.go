package sourcetree_test

// root is the directory of the source tree.
const root = "../.."
