/* no reference: the folder is for tests of loading */
