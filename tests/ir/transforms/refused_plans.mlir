// RUN: not vk-opt '--apply-plan{tiles="i=4"}' %s | filecheck %s --check-prefix LACKS
// RUN: not vk-opt '--apply-plan{tiles="i=4" chunks="j=16" splits="j=2" launches=sum}' %s | filecheck %s --check-prefix BOTH
// RUN: not vk-opt '--apply-plan{tiles="i=4" chunks="j=16" packs=out}' %s | filecheck %s --check-prefix PACK
// RUN: not vk-opt '--apply-plan{tiles="i=4" chunks="j=16" online=j}' %s | filecheck %s --check-prefix ONLINE
// RUN: not vk-opt '--apply-plan{tiles="i=4" chunks="j=16" copies=x}' %s | filecheck %s --check-prefix COPIES
// RUN: not vk-opt '--apply-plan{tiles="i=4" chunks="j=16" homes="y=memory"}' %s | filecheck %s --check-prefix HOMES
// RUN: not vk-opt '--apply-plan{tiles="i"}' %s | filecheck %s --check-prefix OPTION
// A plan that does not fit the kernel is refused, with the reason.

vk.kernel @shares(%x: !vk.tensor<[M, N], f32>, %out: !vk.tensor<[M, N], f32>) {
  %M = vk.size M
  vk.tile i < %M
  %N = vk.size N
  vk.whole j < %N
  %row = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sum = vk.sum %row along j : tensor<?x?xf32, #vk.axes<i, j>> -> tensor<?xf32, #vk.axes<i>>
  %again = vk.load %x[i, j] : !vk.tensor<[M, N], f32> -> tensor<?x?xf32, #vk.axes<i, j>>
  %sb = vk.broadcast %sum : tensor<?xf32, #vk.axes<i>> -> tensor<?x?xf32, #vk.axes<i, j>>
  %q = arith.divf %again, %sb : tensor<?x?xf32, #vk.axes<i, j>>
  vk.store %q in %out[i, j] : !vk.tensor<[M, N], f32> <- tensor<?x?xf32, #vk.axes<i, j>>
}

// LACKS:  the plan gives whole axis j no elements
// BOTH:   the plan splits axis j over programs, which makes launches; it names others
// PACK:   out is not a tensor that is only loaded, never written: it cannot be packed
// ONLINE: the plan goes online along j: no sum of exp(x - m) along it follows m, the maximum of x
// COPIES: the plan keeps two copies of x, which is no scratchpad of the kernel
// HOMES:  the plan gives homes to y, which cross no phase
// OPTION: apply-plan: expected name=value, found 'i'
