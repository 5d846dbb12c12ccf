// A shared library without a registration line.
int nothing() { return 0; }
