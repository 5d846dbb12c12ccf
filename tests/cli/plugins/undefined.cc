// Needs a symbol that nobody has.
namespace orrery::moe {
int from_another_release();
const int orrery_wanted = from_another_release();
}  // namespace orrery::moe
