// Owns the precompiled headers of the tests (cmake/SluiceTests.cmake).
int main() {}
